package sqlstore

import (
	"context"
	"fmt"
	"strings"
)

// myIndexes are the indexes that cleaning needs, as they are made here, where an index
// is of all rows.
var myIndexes = map[string]string{
	"msg_dedup_by_time": "ON msg_dedup (recalled, created_at)",
	"events_by_cmid":    "ON events (conv_id, sender, cmid)",
}

// index implements [engine]: beside the writers, since it may take long on large
// tables. Of several nodes one makes it, and the others wait for that one.
func (m *myEngine) index(ctx context.Context, indexes []index) error {
	c, err := m.connect(ctx, m.check)
	if err != nil {
		return fmt.Errorf("no connection to the database: %w", err)
	}
	defer c.Close()
	t := &mySession{ctx: ctx, conn: c}
	if _, err := t.exec("SET SESSION lock_wait_timeout = 86400"); err != nil {
		return err
	}
	for _, x := range indexes {
		there := false
		table, _, _ := strings.Cut(strings.TrimPrefix(x.on, "ON "), " ")
		err := t.query("SELECT 1 FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND INDEX_NAME = ?",
			func(row) error { there = true; return nil }, table, x.name)
		if err != nil {
			return err
		}
		if there {
			continue
		}
		if _, err := t.exec("CREATE INDEX " + x.name + " " + myIndexes[x.name]); err != nil && number(err) != myDuplicateName {
			return err
		}
	}
	return nil
}
