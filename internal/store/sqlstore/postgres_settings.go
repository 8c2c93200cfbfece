package sqlstore

import "github.com/impart-im/impart/internal/store"

// pgSettings reads what durability rests on, as the database reports it for this
// session. synchronous_commit was raised when the session began; what it is by
// itself is told beside it.
func pgSettings(s session) ([]store.Setting, error) {
	value, own := map[string]string{}, map[string]string{}
	err := s.query(`SELECT name, setting, reset_val FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names')`,
		func(r row) error {
			value[r.str(0)], own[r.str(0)] = r.str(1), r.str(2)
			return nil
		})
	if err != nil {
		return nil, err
	}
	standby := "off"
	err = s.query("SELECT pg_is_in_recovery()", func(r row) error {
		if r.num(0) != 0 {
			standby = "on"
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	on := func(name, why string) store.Setting {
		return store.Setting{Name: name, Value: value[name], Want: "on", Safe: value[name] == "on", Why: why}
	}
	commit := on("synchronous_commit", "a crash could take messages that were answered with sent")
	names := value["synchronous_standby_names"]
	commit.Safe = commit.Value == "on" || commit.Value == "remote_apply"
	if names != "" {
		commit.Want = "on or remote_apply"
		commit.Why = "a crash or a failover could take messages that were answered with sent"
	}
	if commit.Value != own["synchronous_commit"] {
		commit.Value += " (for this server's sessions; the database's own is " + own["synchronous_commit"] + ")"
	}
	if names == "" {
		names = "none"
	}
	return []store.Setting{
		on("fsync", "a power cut could take messages that were answered with sent, or the database with them"),
		on("full_page_writes", "a power cut in the middle of a write could tear pages of the database"),
		commit,
		{Name: "synchronous_standby_names", Value: names, Want: "as the deployment needs", Safe: true,
			Why: "without a synchronous standby a failover can take messages that were answered with sent"},
		{Name: "pg_is_in_recovery", Value: standby, Want: "off", Safe: standby == "off", Why: "a standby takes no writes"},
	}, nil
}
