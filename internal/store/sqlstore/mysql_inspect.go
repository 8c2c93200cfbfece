package sqlstore

import (
	"context"
	"os"
)

// inspectMySQL is Inspect for a database.
func inspectMySQL(ctx context.Context, dsn string) (found Inspection, err error) {
	ctx, cancel := context.WithTimeout(ctx, inspectWithin)
	defer cancel()
	address, err := parseMySQL(dsn)
	if err != nil {
		return found, err
	}
	servers, err := newServers(address)
	if err != nil {
		return found, err
	}
	m := &myEngine{servers: servers}
	c, err := servers.connect(ctx, m.examine)
	if err != nil {
		return found, cannotConnect(err)
	}
	defer c.Close()
	if found.Known, err = newest("mysql"); err != nil {
		return found, err
	}
	t := &mySession{ctx: ctx, conn: c}
	found.Release = m.flavour.String()
	there := false
	err = t.query("SELECT CONCAT("+m.flavour.name+", '/', DATABASE()),"+
		" EXISTS (SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'goose_db_version')", func(r row) error {
		found.Database, there = r.str(0), r.num(1) != 0
		return nil
	})
	if err != nil {
		return found, told(err)
	}
	if found.Vitals, err = myVitals(t, m.flavour); err != nil {
		return found, told(err)
	}
	if found.Settings, err = mySettings(t, m.flavour); err != nil {
		return found, told(err)
	}
	if !there {
		return found, os.ErrNotExist
	}
	err = t.query("SELECT MAX(version_id) FROM goose_db_version WHERE is_applied", func(r row) error {
		found.Schema = r.num(0)
		return nil
	})
	if err != nil {
		return found, told(err)
	}
	meta, err := readMeta(t)
	found.Epoch = meta.epoch
	return found, told(err)
}
