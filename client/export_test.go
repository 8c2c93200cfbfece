package client

import (
	"database/sql"
	"strconv"
	"strings"
)

// BreakStore makes every later write fail, as a full or broken disk does.
func (c *Client) BreakStore(broken bool) {
	limit := 1 << 30
	if broken {
		limit = 1 // SQLite takes the present size for it
	}
	if _, err := c.store.db.Exec("PRAGMA max_page_count = " + strconv.Itoa(limit)); err != nil {
		panic(err)
	}
}

// Pragma reads a setting of the store.
func (c *Client) Pragma(name string) (value string) {
	if err := c.store.db.QueryRow("PRAGMA " + name).Scan(&value); err != nil {
		panic(err)
	}
	return value
}

// The queries whose cost must not grow with the store.
const (
	RecallQuery = recallQuery
	TopsQuery   = topsQuery
)

// Plan is how the store finds what a query asks for.
func (c *Client) Plan(query string) (plan string) {
	err := each(c.store.db, func(rows *sql.Rows) error {
		var id, parent, unused int
		var step string
		err := rows.Scan(&id, &parent, &unused, &step)
		plan += step + "\n"
		return err
	}, "EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "?"))...)
	if err != nil {
		panic(err)
	}
	return plan
}

// Hold keeps every other use of the store waiting until release.
func (c *Client) Hold() (release func()) {
	tx, err := c.store.db.Begin()
	if err != nil {
		panic(err)
	}
	return func() { _ = tx.Rollback() }
}
