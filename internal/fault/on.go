//go:build fault

package fault

import (
	"os"
	"strings"
)

// Enabled reports whether this binary can inject faults.
const Enabled = true

var planted = func() map[Bug]bool {
	bugs := map[Bug]bool{}
	for name := range strings.SplitSeq(os.Getenv("IM_BUG"), ",") {
		bugs[Bug(name)] = true
	}
	return bugs
}()

// Planted reports whether IM_BUG names the bug (several by comma).
func Planted(bug Bug) bool { return planted[bug] }
