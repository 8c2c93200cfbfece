package mysql

import "testing"

func TestAClusterOutlivesAMemberAndTakesItBack(t *testing.T) {
	needed(t)
	c, err := StartCluster(t.Context(), 3, Options{})
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	first, second := c.Members()[0], c.Members()[1]
	must(t, first.CreateDatabase(t.Context(), "im"))
	must(t, first.Exec(t.Context(), "im", "CREATE TABLE kept (n int PRIMARY KEY) ENGINE=InnoDB; INSERT INTO kept VALUES (1)"))
	must(t, first.Kill())
	for { // until the others have seen that it is gone
		if err := second.Exec(t.Context(), "im", "INSERT INTO kept VALUES (2)"); err == nil {
			break
		}
		must(t, t.Context().Err())
	}
	must(t, first.Start(t.Context()))
	for _, s := range c.Members() {
		if n := ask[int](t, s, "im", "SET SESSION wsrep_sync_wait = 1; SELECT COUNT(*) FROM kept"); n != 2 {
			t.Errorf("%d rows on %s", n, s.Addr())
		}
	}
}
