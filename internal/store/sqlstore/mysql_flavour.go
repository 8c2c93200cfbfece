package sqlstore

import (
	"fmt"
	"strings"
)

// myFlavour is in what the databases that speak MySQL's protocol differ.
type myFlavour struct {
	kind    string // MariaDB, Galera, MySQL, TiDB or Vitess
	version string
	// setup sets what every session needs and a transaction cannot set for itself.
	setup string
	// name is the history of the database, as an SQL expression: of a single server
	// what it calls itself, of a cluster what its members have in common.
	name string
	// place is a number that has risen with every commit and does not survive a
	// backup that is put back; 0 where there is none.
	place    string
	readOnly string // whether the server takes no writes
	snapshot string // begins a transaction that reads one state
	// gates says that transactions can be seen through the rows that they hold, and
	// passed over: not where a lock is the business of one server of several.
	gates bool
	// single says that a transaction may be ended by another server's between any two
	// of its statements, which only the next packet is told: of a packet with several,
	// those that are left would be done and committed one by one, and the COMMIT at its
	// end would be answered with success.
	single bool
}

// What a session is set to everywhere. The strict mode keeps a value that does not fit
// from being made to; one that waits for a row, or is frozen in its transaction, does
// not hold up the others for long.
const mySetup = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO', autocommit = 1, time_zone = '+00:00', innodb_lock_wait_timeout = 5"

const (
	mariaStatus = "(SELECT CAST(VARIABLE_VALUE AS SIGNED) FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = '%s')"
	mysqlStatus = "COALESCE((SELECT CAST(VARIABLE_VALUE AS SIGNED) FROM performance_schema.global_status WHERE VARIABLE_NAME = '%s'), 0)"
)

// flavourOf is the flavour of the server that a session leads to.
func flavourOf(s session) (*myFlavour, error) {
	set := map[string]string{}
	err := s.query("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'wsrep_on', 'server_uuid')", func(r row) error {
		set[strings.ToLower(r.str(0))] = r.str(1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	version := set["version"]
	f := &myFlavour{version: version, setup: mySetup, place: "0", readOnly: "0", snapshot: mySnapshot + ", READ ONLY"}
	said := version + " " + set["version_comment"]
	switch {
	case strings.Contains(said, "TiDB"):
		// It takes READ ONLY for a mistake unless it is told to let it pass.
		f.kind, f.name, f.snapshot = "TiDB", "'tidb/0'", mySnapshot
	case strings.Contains(said, "Vitess"):
		f.kind, f.name = "Vitess", "'vitess/0'"
	case strings.Contains(said, "MariaDB") && set["wsrep_on"] == "ON":
		f.kind = "Galera"
		f.name = "CONCAT('galera-', (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'WSREP_CLUSTER_STATE_UUID'), '/0')"
		f.place, f.readOnly = fmt.Sprintf(mariaStatus, "WSREP_LAST_COMMITTED"), "@@read_only"
		// A transaction that begins waits for all that was committed on any server.
		f.setup += ", idle_transaction_timeout = 10, wsrep_sync_wait = 1"
		f.single = true
	case strings.Contains(said, "MariaDB"):
		f.kind, f.name = "MariaDB", "CONCAT('mariadb-', @@server_id, '/0')"
		f.place, f.readOnly = fmt.Sprintf(mariaStatus, "INNODB_LSN_CURRENT"), "@@read_only"
		f.setup += ", idle_transaction_timeout = 10"
		f.gates = true
	default:
		f.kind, f.name = "MySQL", "CONCAT('mysql-', @@server_uuid, '/0')"
		f.place, f.readOnly = fmt.Sprintf(mysqlStatus, "Innodb_redo_log_current_lsn"), "@@read_only"
		f.gates = true
	}
	return f, nil
}

// The oldest releases that know SKIP LOCKED and lists of keys.
const (
	minMariaDB = "10.6"
	minMySQL   = "8.0"
)

// tooOld says which release is needed instead, or "".
func (f *myFlavour) tooOld() string {
	least := map[string]string{"MariaDB": minMariaDB, "Galera": minMariaDB, "MySQL": minMySQL}[f.kind]
	var have, want [2]int
	_, _ = fmt.Sscanf(release(f.version), "%d.%d", &have[0], &have[1])
	_, _ = fmt.Sscanf(least, "%d.%d", &want[0], &want[1])
	if have[0] < want[0] || have[0] == want[0] && have[1] < want[1] {
		return least
	}
	return ""
}

// String is the flavour for people.
func (f *myFlavour) String() string {
	if f.kind == "Galera" {
		return "MariaDB " + release(f.version) + " with Galera"
	}
	return f.kind + " " + release(f.version)
}
