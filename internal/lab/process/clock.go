package process

import (
	"os"
	"time"
)

// SetClock moves the clock of every process that was started with IM_CLOCK=file
// by so much, from 50 ms later on; 0 sets it right again. Only a server built with
// -tags fault looks. The file need not be there before.
func SetClock(file string, by time.Duration) error {
	next := file + ".next"
	if err := os.WriteFile(next, []byte(by.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(next, file)
}
