package client_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/world"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/store/memstore"
)

// TestFailoversAtAnyMoment lets two applications talk while standbys take over that
// lack nothing, or the last moments, with links that are cut. Whatever was lost on the
// way, each ends with the server's log: no hole, the same everywhere, and everything
// that was ever said in it once.
func TestFailoversAtAnyMoment(t *testing.T) {
	seeds := 12
	if testing.Short() {
		seeds = 5
	}
	kept, raised := 0, 0
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			opts := world.Options{
				Store: memstore.Options{Shared: true},
				Logic: func(cfg *logic.Config) { cfg.Vouched = true },
			}
			storyWith(t, opts, func(t *testing.T, w *server) {
				w.Store.Replicate(true)
				k, r := failovers(t, w, rand.New(rand.NewPCG(uint64(seed), 18)))
				kept, raised = kept+k, raised+r
			})
		})
	}
	if kept == 0 || raised == 0 {
		t.Errorf("%d failovers kept the epoch and %d raised it: the story shows less than it says", kept, raised)
	}
}

func failovers(t *testing.T, w *server, draw *rand.Rand) (kept, raised int) {
	apps := []*app{w.app("ana"), w.app("ben")}
	for _, a := range apps {
		a.online()
	}
	time.Sleep(3 * time.Second) // the node has beaten
	said := map[impart.CMID]string{}
	talk := func(steps int) {
		for range steps {
			a := apps[draw.IntN(len(apps))]
			body := fmt.Sprint("message ", len(said))
			said[a.send(ab, body)] = body
			time.Sleep(time.Duration(draw.IntN(80)) * time.Millisecond)
			if draw.IntN(12) == 0 {
				a.link.Cut()
			}
		}
	}
	for range 4 {
		talk(5 + draw.IntN(20))
		standby := w.Store.Standby()
		if draw.IntN(2) == 0 {
			talk(1 + draw.IntN(15)) // the standby lacks it
		}
		before := epochOf(t, w)
		standby.Promote()
		w.Store.Reach(standby)
		talk(3)
		for end := time.Now().Add(time.Minute); w.Store.Halted() != nil; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the failover is not judged")
			}
		}
		if now := epochOf(t, w); now == before {
			kept++
		} else {
			raised++
		}
	}
	talk(3)
	converge(t, w, apps, said)
	return kept, raised
}

func epochOf(t *testing.T, w *server) impart.Epoch {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		epoch, err := w.Logic.Epoch(t.Context())
		if err == nil {
			return epoch
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// converge waits until what the applications were handed is the server's log.
func converge(t *testing.T, w *server, apps []*app, said map[impart.CMID]string) {
	t.Helper()
	for _, a := range apps {
		a.through()
	}
	after := impart.Seq(0)
	page, err := w.Logic.Sync(t.Context(), impart.Sync{User: "u-ana", Conv: ab, After: &after, Limit: impart.MaxLimit})
	must(t, err)
	for i, ev := range page.Events {
		if ev.Seq != impart.Seq(i+1) {
			t.Fatalf("the log has a hole before %d", ev.Seq)
		}
		if said[ev.CMID] != ev.Body {
			t.Errorf("%s is in the log twice, or was never said: %q", ev.CMID, ev.Body)
		}
		delete(said, ev.CMID)
	}
	if len(said) > 0 {
		t.Errorf("gone: %v", said)
	}
	for _, a := range apps {
		same := func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return slices.EqualFunc(a.handed[ab], page.Events, func(x, y impart.Event) bool { return x.Seq == y.Seq && x.MID == y.MID && x.Body == y.Body })
		}
		for end := time.Now().Add(5 * time.Minute); !same(); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s was handed %d events that are not the log's %d; the status is %+v", a.cfg.Device, len(a.bodies(ab)), len(page.Events), a.Status())
			}
		}
	}
}
