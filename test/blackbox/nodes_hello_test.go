package blackbox

// Hellos that are given up while the database stands still.

import (
	"fmt"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/impart"
	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// The database is frozen, a device gives a hello up and says it again at another node, as behind a balancer. When the
// database goes on, both are carried out, and only the later one counts: the device stays connected.
func TestNodesAHelloThatWasGivenUpOutdoesNobody(t *testing.T) {
	t.Parallel()
	d := impart.OwnDatabase(t, nil)
	w := newWorldOn(t, d, 2)
	ab := w.conv("ab", "ana", "ben")
	ana := w.onlineAt(0, "ana", "phone")
	ana.send(ab, "before", "x")
	for round := range 6 {
		ana.Close()
		if err := d.Pause(); err != nil {
			t.Fatal(err)
		}
		from, to := w.nodes[round%2].Addr(), w.nodes[1-round%2].Addr()
		given := w.dialAt(from, rawclient.DialOptions{})
		given.post(w.hello("ana", "phone", nil))
		time.Sleep(300 * time.Millisecond)
		if round%3 > 0 { // a client that hangs up is not heard while its hello is under way
			given.Close()
		}
		ana = w.dialAt(to, rawclient.DialOptions{})
		rid := ana.post(w.hello("ana", "phone", nil))
		time.Sleep(time.Duration(100+100*round) * time.Millisecond)
		if err := d.Resume(); err != nil {
			t.Fatal(err)
		}
		if f := ana.reply(rid); f.T() != "welcome" {
			t.Fatalf("round %d: the later hello got %s", round, f.Object)
		}
		if round%3 == 0 {
			given.await("the end of the earlier connection", 0, func(f rawclient.Frame) bool {
				return f.T() == "bye" && f.Str("code") == "SUPERSEDED"
			})
		}
		ana.want("subbed", F{"t": "sub"})
		ana.noneFor(scaled(700*time.Millisecond), "goodbye", 0, func(f rawclient.Frame) bool { return f.T() == "bye" })
		ana.send(ab, fmt.Sprint("k", round), "x")
	}
}
