package sqlstore

import (
	"strconv"
	"strings"

	"github.com/impart-im/impart/internal/store"
)

// myValues are variables and figures of a server, by their names in small letters.
type myValues map[string]string

// longestSync is the least rpl_semi_sync_master_timeout that counts as waiting for a
// replica, in ms: when it is up, the primary goes on without one and says nothing.
const longestSync = 60 * 60 * 1000

// readMySettings reads what durability rests on.
func readMySettings(s session) (myValues, error) {
	out := myValues{}
	keep := func(r row) error {
		out[strings.ToLower(r.str(0))] = r.str(1)
		return nil
	}
	err := s.query(`SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'innodb_doublewrite', 'innodb_flush_method',
		'log_bin', 'sync_binlog', 'binlog_format', 'read_only', 'wsrep_on',
		'rpl_semi_sync_master_enabled', 'rpl_semi_sync_master_timeout', 'rpl_semi_sync_master_wait_no_slave',
		'rpl_semi_sync_source_enabled', 'rpl_semi_sync_source_timeout', 'rpl_semi_sync_source_wait_no_replica',
		'aurora_version')`, keep)
	if err == nil {
		err = s.query("SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_size', 'Innodb_redo_log_enabled')", keep)
	}
	return out, err
}

// on reports whether a variable is set to one of the ways to say yes.
func (v myValues) on(name string) bool {
	value := strings.ToUpper(v[name])
	return value == "ON" || value == "1"
}

// semiSync reports whether every commit waits for a replica, for however long, and also
// while none is connected: told not to (wait_no_slave), the primary answers as soon as
// the last one has gone.
func (v myValues) semiSync() bool {
	for name, alone := range map[string]string{"rpl_semi_sync_master_": "wait_no_slave", "rpl_semi_sync_source_": "wait_no_replica"} {
		timeout, err := strconv.ParseInt(v[name+"timeout"], 10, 64)
		_, told := v[name+alone]
		if v.on(name+"enabled") && err == nil && timeout >= longestSync && (!told || v.on(name+alone)) {
			return true
		}
	}
	return false
}

// replicated reports whether a commit that is answered is on more than one server.
func (v myValues) replicated(f *myFlavour) bool {
	if f.kind == "Galera" {
		n, err := strconv.Atoi(v["wsrep_cluster_size"])
		return err == nil && n > 1 && v.on("wsrep_on")
	}
	return v.aurora() || v.semiSync()
}

// aurora reports whether pages and commits are the business of a storage of their own,
// which has several copies of each before it answers.
func (v myValues) aurora() bool { return v["aurora_version"] != "" }

// replication is the name under which the settings say whether another server has what
// was answered.
const replication = "replication"

// mySettings are the settings on which D1 and D6 rest, as the server reports them.
func mySettings(s session, f *myFlavour) ([]store.Setting, error) {
	v, err := readMySettings(s)
	if err != nil {
		return nil, err
	}
	var out []store.Setting
	add := func(name, want string, safe bool, why string) {
		if _, there := v[name]; there { // a distributed engine has logs of its own
			out = append(out, store.Setting{Name: name, Value: v[name], Want: want, Safe: safe, Why: why})
		}
	}
	const lost = "a power cut could take messages that were answered with sent"
	add("innodb_flush_log_at_trx_commit", "1", v["innodb_flush_log_at_trx_commit"] == "1", lost)
	add("innodb_doublewrite", "ON", v.aurora() || v.on("innodb_doublewrite") || v["innodb_doublewrite"] == "DETECT_AND_RECOVER",
		"a power cut in the middle of a write could tear pages of the database")
	method := strings.ToLower(v["innodb_flush_method"])
	add("innodb_flush_method", "O_DIRECT or fsync", method != "nosync" && method != "littlesync", lost)
	if v.on("log_bin") {
		add("sync_binlog", "1", v["sync_binlog"] == "1", "a power cut could leave the binary log behind the tables, and replicas with it")
		add("binlog_format", "ROW or MIXED", v["binlog_format"] != "STATEMENT", "the server refuses the store's transactions, which are READ COMMITTED")
	}
	add("innodb_redo_log_enabled", "ON", v.on("innodb_redo_log_enabled"), "a crash could take the database")
	if f.kind == "Vitess" {
		if err := s.query("SELECT @@transaction_mode", func(r row) error { v["transaction_mode"] = r.str(0); return nil }); err != nil {
			return nil, err
		}
		mode := strings.ToUpper(v["transaction_mode"])
		add("transaction_mode", "TWOPC, or SINGLE where there is one shard", mode == "TWOPC" || mode == "SINGLE",
			"a crash could keep the key of a message in one shard and lose the message in another: its resend would be answered as stored")
	}
	add("read_only", "OFF", !v.on("read_only"), "a replica takes no writes")
	how := "none"
	if v.replicated(f) {
		how = "semi-synchronous"
		if v.aurora() {
			how = "Aurora's storage"
		}
		if f.kind == "Galera" {
			how = "Galera, " + v["wsrep_cluster_size"] + " servers"
		}
	}
	return append(out, store.Setting{Name: replication, Value: how, Want: "as the deployment needs", Safe: true,
		Why: "without a synchronous replica a failover can take messages that were answered with sent"}), nil
}
