package sqlstore

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killDir); dir != "" {
		killChild(dir)
		return
	}
	goleak.VerifyTestMain(m)
}
