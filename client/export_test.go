package client

import "strconv"

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
