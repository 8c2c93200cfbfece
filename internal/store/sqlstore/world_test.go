package sqlstore

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// world is a store with people who use it.
type world struct {
	*Store
	t     *testing.T
	dir   string
	ticks atomic.Int64
}

func newWorld(t *testing.T, opts Options) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.open(opts)
	t.Cleanup(func() { w.must(w.Close()) })
	return w
}

func (w *world) open(opts Options) {
	w.t.Helper()
	s, err := open(w.t.Context(), dsnIn(w.dir), opts)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Store = s
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) stamp() (impart.MID, impart.Millis) {
	n := w.ticks.Add(1)
	return impart.MID(fmt.Sprintf("mid-%06d", n)), impart.Millis(1_700_000_000_000 + n)
}

func (w *world) group(conv impart.ConvID, members ...impart.UserID) {
	w.t.Helper()
	spec := impart.ConvSpec{Conv: conv, Kind: impart.Group}
	for _, m := range members {
		spec.Members = append(spec.Members, impart.Member{User: m})
	}
	_, _, err := w.PutConversation(w.t.Context(), spec, w.stamp)
	w.must(err)
}

func (w *world) msg(from impart.UserID, conv impart.ConvID, cmid impart.CMID, body string) store.Append {
	mid, at := w.stamp()
	a := store.Append{Kind: impart.KindMsg, Sender: from, Conv: conv, CMID: cmid, Type: impart.DefaultType, Body: body, MID: mid, At: at}
	return hashed(a)
}

func (w *world) recall(from impart.UserID, conv impart.ConvID, cmid impart.CMID, target impart.Seq) store.Append {
	mid, at := w.stamp()
	return hashed(store.Append{Kind: impart.KindRecall, Sender: from, Conv: conv, CMID: cmid, Target: target, MID: mid, At: at})
}

// hashed gives an item the hash that a caller would: of its content alone.
func hashed(a store.Append) store.Append {
	a.Hash = digest(&impart.Event{Kind: a.Kind, Conv: a.Conv, Type: a.Type, Body: a.Body, Ext: a.Ext, Target: a.Target}).sum
	return a
}

// sends appends one message, which must be stored.
func (w *world) sends(a store.Append) impart.Seq {
	w.t.Helper()
	out := w.Append(w.t.Context(), []store.Append{a})[0]
	if out.Err != nil || out.Dup {
		w.t.Fatalf("cmid %q of %s: %+v", a.CMID, a.Sender, out)
	}
	return out.Seq
}

// logOf is the whole log as its first member sees it.
func (w *world) logOf(user impart.UserID, conv impart.ConvID) []impart.Event {
	w.t.Helper()
	var out []impart.Event
	q := store.PageQuery{User: user, Conv: conv, Limit: impart.MaxLimit, MaxBytes: impart.MaxPage}
	for more := true; more; {
		page, err := w.Page(w.t.Context(), q)
		w.must(err)
		out = append(out, page.Events...)
		q.After, more = page.Through, page.More
	}
	return out
}

// whole checks that a log has no hole and each cmid once.
func (w *world) whole(user impart.UserID, conv impart.ConvID) []impart.Event {
	w.t.Helper()
	events := w.logOf(user, conv)
	seen := map[dedupKey]impart.Seq{}
	for i, ev := range events {
		if ev.Seq != impart.Seq(i+1) {
			w.t.Fatalf("%s: seq %d stands at %d: there is a hole", conv, ev.Seq, i+1)
		}
		key := dedupKey{ev.Sender, ev.CMID}
		if ev.CMID != "" && seen[key] != 0 {
			w.t.Fatalf("%s: cmid %q stands at %d and at %d", conv, ev.CMID, seen[key], ev.Seq)
		}
		seen[key] = ev.Seq
	}
	return events
}
