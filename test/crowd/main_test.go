package crowd

import (
	"os"
	"testing"

	"github.com/impart-im/impart/test/blackbox/impart"
)

func TestMain(m *testing.M) { os.Exit(impart.Main(m)) }
