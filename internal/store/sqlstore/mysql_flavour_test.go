package sqlstore

import (
	"strings"
	"testing"
)

// scripted is a session that answers by what a query contains.
type scripted map[string][]row

func (s scripted) exec(string, ...any) (int64, error) { return 0, nil }

func (s scripted) prefetch([]ask) error { return nil }

func (s scripted) query(query string, each func(row) error, _ ...any) error {
	for part, rows := range s {
		if !strings.Contains(query, part) {
			continue
		}
		for _, r := range rows {
			if err := each(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestFlavours(t *testing.T) {
	for version, c := range map[string]struct {
		more    row
		want    string
		too     string
		gates   bool
		name    string
		without string // what it must not say
	}{
		"10.11.6-MariaDB":           {row{"wsrep_on", "OFF"}, "MariaDB 10.11.6", "", true, "@@server_id", "wsrep"},
		"10.11.6-MariaDB-log":       {row{"wsrep_on", "ON"}, "MariaDB 10.11.6 with Galera", "", false, "WSREP_CLUSTER_STATE_UUID", "@@server_id"},
		"10.5.3-MariaDB":            {row{"wsrep_on", "OFF"}, "MariaDB 10.5.3", "10.6", true, "@@server_id", ""},
		"8.0.36":                    {row{"server_uuid", "x"}, "MySQL 8.0.36", "", true, "@@server_uuid", "idle_transaction_timeout"},
		"5.7.44":                    {row{"server_uuid", "x"}, "MySQL 5.7.44", "8.0", true, "@@server_uuid", ""},
		"8.0.11-TiDB-v8.5.0":        {row{"version_comment", "TiDB Server"}, "TiDB 8.0.11", "", false, "'tidb/0'", "READ ONLY"},
		"8.0.30-Vitess":             {row{"version_comment", "x"}, "Vitess 8.0.30", "", false, "'vitess/0'", "idle_transaction_timeout"},
		"8.0.39 as it calls itself": {row{"version_comment", "Vitess"}, "Vitess 8.0.39 as it calls itself", "", false, "'vitess/0'", ""},
	} {
		f, err := flavourOf(scripted{"SHOW GLOBAL VARIABLES": {{"version", version}, c.more}})
		if err != nil {
			t.Fatal(err)
		}
		all := f.setup + f.name + f.place + f.snapshot
		if f.String() != c.want || f.tooOld() != c.too || f.gates != c.gates || !strings.Contains(f.name, c.name) || c.without != "" && strings.Contains(all, c.without) {
			t.Errorf("%s is %s, too old: %q, gates %v: %s", version, f, f.tooOld(), f.gates, all)
		}
	}
}

// What would make the promise of a commit a lie is told, also where it is the engine's
// own way to say it.
func TestMySQLSettingsAreJudged(t *testing.T) {
	good := map[string]string{
		"innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "ON", "innodb_flush_method": "O_DIRECT", "log_bin": "ON",
		"sync_binlog": "1", "binlog_format": "ROW", "read_only": "OFF", "wsrep_on": "OFF",
	}
	judge := func(kind string, set map[string]string) (unsafe []string) {
		var rows []row
		for name, value := range set {
			rows = append(rows, row{name, value})
		}
		settings, err := mySettings(scripted{"SHOW GLOBAL VARIABLES": rows, "@@transaction_mode": {{set["mode"]}}}, &myFlavour{kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range settings {
			if !s.Safe {
				unsafe = append(unsafe, s.Name)
			}
			if s.Why == "" || s.Want == "" {
				t.Errorf("%s says too little: %+v", s.Name, s)
			}
		}
		return unsafe
	}
	if unsafe := judge("MariaDB", good); len(unsafe) != 0 {
		t.Errorf("unsafe: %v", unsafe)
	}
	for name, value := range map[string]string{
		"innodb_flush_log_at_trx_commit": "2", "innodb_doublewrite": "OFF", "innodb_flush_method": "nosync", "sync_binlog": "0", "binlog_format": "STATEMENT", "read_only": "ON",
	} {
		set := map[string]string{}
		for n, v := range good {
			set[n] = v
		}
		set[name] = value
		if unsafe := judge("MariaDB", set); len(unsafe) != 1 || unsafe[0] != name {
			t.Errorf("with %s=%s unsafe are %v", name, value, unsafe)
		}
	}
	if unsafe := judge("MySQL", map[string]string{"innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "OFF", "aurora_version": "3.05.2"}); len(unsafe) != 0 {
		t.Errorf("of Aurora unsafe are %v", unsafe)
	}
	if unsafe := judge("Vitess", map[string]string{"mode": "MULTI"}); len(unsafe) != 1 || unsafe[0] != "transaction_mode" {
		t.Errorf("commits that are not atomic across shards pass: %v", unsafe)
	}
	if unsafe := judge("Vitess", map[string]string{"mode": "TWOPC"}); len(unsafe) != 0 {
		t.Errorf("atomic ones do not: %v", unsafe)
	}
}

func TestLiteralsHoldNothingButBytes(t *testing.T) {
	got := interpolate("SELECT ? , $2 FROM t WHERE a = ?::bigint LIMIT $1", []any{"a'\\\x00ü", int64(-7)})
	if want := "SELECT x'61275c00c3bc' , -7 FROM t WHERE a = -7 LIMIT x'61275c00c3bc'"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := interpolate("(?, ?, ?)", []any{nil, []byte{}, true}); got != "(NULL, x'', 1)" {
		t.Errorf("got %s", got)
	}
}

// A beat counts as replicated only where nothing but an hour lets a commit go on
// without a second server.
func TestWhatIsReplicated(t *testing.T) {
	for name, c := range map[string]struct {
		kind string
		set  myValues
		want bool
	}{
		"alone":                     {"MariaDB", myValues{"rpl_semi_sync_master_enabled": "OFF", "rpl_semi_sync_master_timeout": "9999999"}, false},
		"ten seconds at most":       {"MariaDB", myValues{"rpl_semi_sync_master_enabled": "ON", "rpl_semi_sync_master_timeout": "10000"}, false},
		"for an hour":               {"MariaDB", myValues{"rpl_semi_sync_master_enabled": "ON", "rpl_semi_sync_master_timeout": "3600000"}, true},
		"and with no replica":       {"MariaDB", myValues{"rpl_semi_sync_master_enabled": "ON", "rpl_semi_sync_master_timeout": "3600000", "rpl_semi_sync_master_wait_no_slave": "ON"}, true},
		"unless there is none":      {"MariaDB", myValues{"rpl_semi_sync_master_enabled": "ON", "rpl_semi_sync_master_timeout": "3600000", "rpl_semi_sync_master_wait_no_slave": "OFF"}, false},
		"nor by its other name":     {"MySQL", myValues{"rpl_semi_sync_source_enabled": "1", "rpl_semi_sync_source_timeout": "3600000", "rpl_semi_sync_source_wait_no_replica": "0"}, false},
		"by its other name":         {"MySQL", myValues{"rpl_semi_sync_source_enabled": "1", "rpl_semi_sync_source_timeout": "3600000"}, true},
		"a cluster":                 {"Galera", myValues{"wsrep_on": "ON", "wsrep_cluster_size": "3"}, true},
		"what is left of a cluster": {"Galera", myValues{"wsrep_on": "ON", "wsrep_cluster_size": "1"}, false},
	} {
		if got := c.set.replicated(&myFlavour{kind: c.kind}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
