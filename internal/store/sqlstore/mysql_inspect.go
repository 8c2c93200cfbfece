package sqlstore

import (
	"context"
	"os"
	"time"

	"github.com/impart-im/impart"
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
	asked := time.Now()
	err = t.query("SELECT "+myClock+", CONCAT("+m.flavour.name+", '/', DATABASE()),"+
		" EXISTS (SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'goose_db_version')", func(r row) error {
		found.Now, found.Database, there = impart.Millis(r.num(0)), r.str(1), r.num(2) != 0
		return nil
	})
	if err != nil {
		return found, told(err)
	}
	found.Asked = asked.Add(time.Since(asked) / 2)
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
