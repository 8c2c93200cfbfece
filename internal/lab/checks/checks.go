// Package checks holds the checks of the fault lab, one function each, and the
// sabotages that their twins run with. They see a deployment only from outside:
// frames, rows of the database, metrics, exit codes, and what clients stored.
package checks

import (
	"fmt"
	"slices"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
)

// All gives every check, in the order in which they run.
func All() []lab.Check {
	return slices.Concat(crashes(), deliveries(), answers(),
		storms(), readers(), installs(), members(), files(), clocks(), apps(), disks(),
		dbCrashes(), dbDisks(), failovers(), nodes(), apart(), redises())
}

// The engines that checks are about.
var (
	onSQLite   = []lab.Engine{lab.SQLite}
	onPostgres = []lab.Engine{lab.PostgreSQL}
	onMySQL    = []lab.Engine{lab.MySQL}
	onServers  = []lab.Engine{lab.PostgreSQL, lab.MySQL}
)

// The guards that many twins run without.
var (
	noDedup    = lab.Planted(fault.NoDedup, "the unique key decides nothing")
	noSweep    = lab.Planted(fault.NoSweep, "nobody looks for lost pushes")
	keepsEpoch = lab.Planted(fault.KeepsEpoch, "the epoch stays, whatever is lost")
)

// What most checks use.
const (
	ab  = "c-ab"
	ana = "u-ana"
	ben = "u-ben"
)

// cmid is the i-th cmid with this beginning.
func cmid(begin string, i int) impart.CMID { return impart.CMID(fmt.Sprintf("%s-%d", begin, i)) }

// replySoon is ample for what needs no disk and no network.
const replySoon = 5 * time.Second
