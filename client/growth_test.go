package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// What is looked up for each event, and for each connection, must not cost more
// the more is stored. An index that is not used makes no other test fail.
func TestLookUpsUseTheirIndex(t *testing.T) {
	c, err := client.Open(t.Context(), client.Config{URL: "http://127.0.0.1:1", Device: "d", Token: client.StaticToken("x")})
	must(t, err)
	defer c.Close()
	for name, look := range map[string]struct{ query, plan string }{
		"the recall of a new event": {client.RecallQuery, "USING INDEX events_target (conv=? AND target=?)"},
		"the tops of all logs":      {client.TopsQuery, "SEARCH events USING PRIMARY KEY (conv>?)"},
	} {
		plan := c.Plan(look.query)
		if !strings.Contains(plan, look.plan) || strings.Contains(plan, "SCAN events") {
			t.Errorf("%s is found by\n%s", name, plan)
		}
	}
	if plan := c.Plan("SELECT conv, max(seq) FROM events GROUP BY conv"); !strings.Contains(plan, "SCAN events") {
		t.Errorf("a plan that reads everything is not recognised:\n%s", plan)
	}
}

// The bound of the outbox counts what waits, and nothing else.
func TestTheOutboxIsBounded(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana", func(cfg *client.Config) { cfg.MaxOutbox = 5 })
		ana.online()
		for range 7 {
			ana.send("c-none", "refused")
			ana.through()
		}
		ana.link.Off()
		for i := range 5 {
			_, err := ana.Send(t.Context(), client.Draft{Conv: ab, Body: fmt.Sprint(i), CMID: impart.CMID(fmt.Sprint("m-", i))})
			must(t, err)
		}
		if _, err := ana.Send(t.Context(), client.Draft{Conv: ab, Body: "x"}); !errors.Is(err, client.ErrOutboxFull) {
			t.Fatalf("the sixth: %v", err)
		}
		_, err := ana.Cancel(t.Context(), "m-2")
		must(t, err)
		ana.send(ab, "last")
		if _, err := ana.Send(t.Context(), client.Draft{Conv: ab, Body: "x"}); !errors.Is(err, client.ErrOutboxFull) {
			t.Fatalf("after one was cancelled and one sent: %v", err)
		}
		ana.link.On()
		ana.through()
		ana.wants(ab, "0", "1", "3", "4", "last")
	})
}
