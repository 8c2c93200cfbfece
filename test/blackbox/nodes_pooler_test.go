package blackbox

// Nodes whose database stands behind a pooler in transaction mode.

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/impart-im/impart/internal/lab/postgres"
	"github.com/impart-im/impart/test/blackbox/impart"
)

// behindPooler is a database behind a pooler that shares a few sessions among many.
func behindPooler(t *testing.T) (impart.Database, *postgres.Pooler) {
	d := impart.OwnDatabase(t, nil)
	pooler, err := d.Pooler(context.Background(), 6)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pooler.Kill)
	return d, pooler
}

// Two nodes write through a pooler that gives each transaction another session: what one stores is pushed by the
// other, retries are known, and a pooler that dies costs no message.
func TestNodesBehindAPooler(t *testing.T) {
	t.Parallel()
	d, pooler := behindPooler(t)
	w := newWorldOn(t, d, 2, "IM_STORE="+pooler.DSN(d.Name), "IM_LISTEN_STORE="+d.DSN(d.Name))
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.onlineAt(0, "ana", "phone"), w.onlineAt(1, "ben", "phone")
	for i := range 50 {
		sent := ana.send(ab, fmt.Sprint("a", i), "x")
		ben.event(ab, sent.Int("seq"))
		ben.ack(ab, sent.Int("seq"))
		if again := ben.send(ab, fmt.Sprint("b", i), "x"); again.Int("seq") != sent.Int("seq")+1 {
			t.Fatalf("the answer is %s after seq %d", again.Object, sent.Int("seq"))
		}
	}
	if n := d.Query(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'impart'"); n > 6 {
		t.Errorf("the stores have %d sessions: they go past the pooler", n)
	}
	pooler.Kill()
	if err := pooler.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := ana.send(ab, "a-after", "x")
	ben.event(ab, sent.Int("seq"))
	if dup := ana.send(ab, "a3", "x"); !dup.Bool("dup") || dup.Int("seq") != 7 {
		t.Errorf("the resend is answered with %s", dup.Object)
	}
	if _, head := ben.log(ab, 0); head != 101 {
		t.Errorf("head %d, want 101", head)
	}
}

// A pooler keeps no LISTEN: without a way around it a node does not start, and says what to set.
func TestNodesBehindAPoolerNeedAnAddressToListen(t *testing.T) {
	t.Parallel()
	d, pooler := behindPooler(t)
	ctx, cancel := testContext(t, patience)
	defer cancel()
	cmd := impart.Command(t, impart.Config{Env: []string{"IM_STORE=" + pooler.DSN(d.Name)}})
	out := endsWithin(ctx, t, cmd)
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(out, "set IM_LISTEN_STORE to the database's own address") {
		t.Errorf("exit code %d, output %q", code, out)
	}
}
