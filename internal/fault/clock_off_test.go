//go:build !fault

package fault

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTheNormalBinaryHasTheMachinesClock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clock")
	if err := os.WriteFile(file, []byte("1h"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("IM_CLOCK", file)
	if now := time.Now(); Wall(now) != now {
		t.Error("its clock can be moved")
	}
}
