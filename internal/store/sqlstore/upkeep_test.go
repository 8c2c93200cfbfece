package sqlstore

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// A recalled body comes back by no road: not when the dedup row was cleaned
// before the recall, and not when the event was removed after it (D17).
func TestARecalledMessageIsNeverSentAgain(t *testing.T) {
	for _, cleanedFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("cleaned before the recall %t", cleanedFirst), func(t *testing.T) {
			w := newWorld(t, Options{DedupRetention: cleanedFirst})
			w.group("c", "ana")
			secret := w.msg("ana", "c", "k", "secret")
			w.sends(secret)
			clean := func(want int) {
				t.Helper()
				n, more, err := w.CleanDedup(t.Context(), impart.MaxNumber, 100)
				if err != nil || more || n != want {
					t.Errorf("cleaned %d, %t, %v; want %d", n, more, err, want)
				}
			}
			if cleanedFirst {
				clean(1)
			}
			w.sends(w.recall("ana", "c", "r", 1))
			clean(1) // the recall's own row
			if n, _, err := w.Retain(t.Context(), impart.MaxNumber, 100); err != nil || n != 2 {
				t.Errorf("removed %d, %v", n, err)
			}
			clean(0)
			out := w.Append(t.Context(), []store.Append{secret})[0]
			if !out.Dup || out.Seq != 1 || out.Err != nil {
				t.Errorf("the resend got %+v", out)
			}
			if got := impart.CodeOf(w.stored(w.msg("ana", "c", "k", "another"))); got != impart.CMIDReused {
				t.Errorf("another message under its cmid got %q", got)
			}
			if got := w.logOf("ana", "c"); len(got) != 0 {
				t.Errorf("the log is %+v", got)
			}
		})
	}
}

// Cleaning works on a store that was opened without DedupRetention, too, and
// after it the events decide, also once it is opened again.
func TestEventsDecideAfterCleaning(t *testing.T) {
	w := newWorld(t, Options{})
	w.group("c", "ana")
	a, b := w.msg("ana", "c", "a", "x"), w.msg("ana", "c", "b", "y")
	w.sends(a)
	w.sends(b)
	n, more, err := w.CleanDedup(t.Context(), b.At, 100)
	if err != nil || n != 1 || more {
		t.Fatalf("cleaned %d, %t, %v; want the older one", n, more, err)
	}
	w.must(w.Close())
	w.open(Options{})
	for range 2 {
		for i, item := range []store.Append{a, b} {
			if out := w.Append(t.Context(), []store.Append{item})[0]; !out.Dup || out.Seq != impart.Seq(i+1) || out.Err != nil {
				t.Errorf("%s: %+v", item.CMID, out)
			}
		}
	}
	if got := len(w.whole("ana", "c")); got != 2 {
		t.Errorf("%d events", got)
	}
}

// More conversations than a page holds may be written in one millisecond: the
// caller, who goes on from the last time, has to get past it.
func TestWrittenGetsPastABusyMillisecond(t *testing.T) {
	now := impart.Millis(1000)
	w := newWorld(t, Options{Now: func() impart.Millis { return now }})
	var items []store.Append
	for i := range 25 {
		w.group(benchConv(i), "ana")
		items = append(items, w.msg("ana", benchConv(i), impart.CMID(fmt.Sprint(i)), "x"))
	}
	w.must(w.stored(items[:20]...))
	now = 1001
	w.must(w.stored(items[20:]...))
	seen := map[impart.ConvID]bool{}
	since, pages := impart.Millis(1), 0
	for more := true; more; pages++ {
		if pages > 10 {
			t.Fatal("the pages do not end")
		}
		out, err := w.Written(t.Context(), since, 10)
		w.must(err)
		for _, h := range out.Heads {
			seen[h.Conv] = true
			if h.At < since {
				t.Errorf("%+v is older than %d", h, since)
			}
			since = h.At
		}
		more = out.More
	}
	if len(seen) != 25 {
		t.Errorf("%d conversations were listed, want 25", len(seen))
	}
}

func TestSlowestIsOfLate(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	var l slowest
	l.add(3*time.Second, at)
	l.add(time.Second, at.Add(30*time.Second))
	for after, want := range map[time.Duration]time.Duration{
		31 * time.Second: 3 * time.Second, // in the window
	} {
		if got := l.get(at.Add(after)); got != want {
			t.Errorf("after %s: %s, want %s", after, got, want)
		}
	}
	if got := l.get(at.Add(90 * time.Second)); got != 3*time.Second {
		t.Errorf("in the window before: %s", got)
	}
	l.add(2*time.Second, at.Add(100*time.Second))
	if got := l.get(at.Add(5 * time.Minute)); got != 0 {
		t.Errorf("long ago: %s", got)
	}
}

// The transaction that is under way counts, however long it takes (D5).
func TestSlowestCountsTheOneUnderWay(t *testing.T) {
	w, g, first := heldWorld(t, Options{})
	began := time.Now()
	waitFor(t, "the held commit to age", func() bool { return time.Since(began) > 20*time.Millisecond })
	if got := w.Stats().Slowest; got < 20 {
		t.Errorf("slowest is %d ms while a commit has taken 20 ms", got)
	}
	close(g.open)
	<-first
	if got := w.Stats().Slowest; got < 20 {
		t.Errorf("slowest is %d ms after a commit that took 20 ms", got)
	}
}

// The log does not grow without end under a steady load, of messages or of what
// an operator does, and a checkpoint beside the writer loses nothing.
func TestTheLogStartsAgain(t *testing.T) {
	r := newRig(t, Options{})
	r.populate(t, 20, 4)
	r.body = strings.Repeat("x", 4000)
	for range 60 {
		items := make([]store.Append, 200)
		for i := range items {
			items[i] = r.msg(i%4, i%20)
		}
		r.mustAppend(t, items)
	}
	for more := true; more; {
		var err error
		if _, more, err = r.Retain(t.Context(), impart.MaxNumber, 200); err != nil {
			t.Fatal(err)
		}
	}
	// The file is as long as the log has ever been.
	log, err := os.Stat(filepath.Join(r.dir, "impart.db-wal"))
	if err != nil {
		t.Fatal(err)
	}
	if pages := log.Size() / 4096; pages < checkpointPages || pages > 3*restartPages {
		t.Errorf("the log grew to %d pages; it should start again after %d", pages, restartPages)
	}
}
