package blackbox

import (
	"flag"
	"os"
	"testing"

	"github.com/impart-im/impart/test/blackbox/impart"
)

// TestMain lets more tests wait side by side than there are processors: nearly all of their time is spent waiting for
// another process. An explicit -parallel wins.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "6"); err != nil {
			panic(err)
		}
	}
	os.Exit(impart.Main(m))
}
