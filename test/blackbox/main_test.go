package blackbox

import (
	"os"
	"testing"

	"github.com/impart-im/impart/test/blackbox/impart"
)

func TestMain(m *testing.M) {
	impart.SideBySide(6)
	os.Exit(impart.Main(m))
}
