//go:build fault

package fault

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheClockFollowsItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clock")
	synctest.Test(t, func(t *testing.T) {
		clock := &steps{file: file}
		wants := func(by time.Duration) {
			t.Helper()
			if got := time.Until(clock.move(time.Now())); got != by {
				t.Errorf("the clock is moved by %v, want %v", got, by)
			}
		}
		set := func(text string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		wants(0) // no file
		for _, step := range []struct {
			text string
			by   time.Duration
		}{{"1h", time.Hour}, {"-1h30m\n", -90 * time.Minute}, {"", 0}} {
			set(step.text)
			time.Sleep(clockFor)
			wants(step.by)
		}
		set("1s")
		wants(0) // not read again yet
		time.Sleep(clockFor)
		wants(time.Second)
		set("soon")
		time.Sleep(clockFor)
		defer func() {
			if recover() == nil {
				t.Error("a file that makes no sense is passed over")
			}
		}()
		clock.move(time.Now())
	})
	if now := time.Now(); Wall(now) != now {
		t.Error("without IM_CLOCK the clock is moved")
	}
}
