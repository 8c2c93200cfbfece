package sqlstore

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/lab/postgres"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killDir); dir != "" {
		killChild(dir)
		return
	}
	goleak.VerifyTestMain(postgres.Tests(mysql.Tests(m)))
}
