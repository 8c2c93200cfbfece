package conformance

import (
	"strings"
	"sync"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var dedupStories = []story{
	{"a resend gets the first answer and stores nothing", func(w *world) {
		w.conversation("c", "ana")
		a := w.msg("ana", "c", "k", "hi")
		first := w.stores(a)[0]
		w.says("ana", "c", "more")
		again := w.msg("ana", "c", "k", "hi") // a new mid and a new time, as a resend has them
		w.repeats(first, again)
		w.repeats(first, again)
		w.sees("ana", "c", "1 hi", "2 more")
	}},
	{"one key twice in one call is stored once", func(w *world) {
		w.conversation("c", "ana")
		a := w.msg("ana", "c", "k", "hi")
		out := w.append(a, w.msg("ana", "c", "k", "hi"), w.msg("ana", "c", "k", "ho"), w.msg("ana", "c", "l", "more"))
		first := store.Appended{Seq: 1, MID: a.MID, At: a.At}
		if out[0].Err != nil || out[0].Dup || out[0].Seq != 1 {
			w.t.Errorf("the first got %+v", out[0])
		}
		w.isDup(first, out[1])
		w.wantCode(impart.CMIDReused, out[2].Err)
		w.sees("ana", "c", "1 hi", "2 more")
	}},
	{"what its caller refuses is answered if it is stored, and is not stored otherwise", func(w *world) {
		w.conversation("c", "ana")
		refused := func(a *store.Append) { a.Refused = impart.Errorf(impart.TooLarge, "the body is too large") }
		first := w.stores(w.msg("ana", "c", "k", "hi"))[0]
		out := w.append(w.msg("ana", "c", "k", "hi", refused), w.msg("ana", "c", "k", "ho", refused),
			w.msg("ana", "c", "l", "ho", refused), w.msg("ana", "c", "m", "more"))
		w.isDup(first, out[0])
		w.wantCode(impart.CMIDReused, out[1].Err)
		w.wantCode(impart.TooLarge, out[2].Err)
		same(w, "the seq of the next one", out[3].Seq, impart.Seq(2))
		w.leaves("c", "ana")
		w.repeats(first, w.msg("ana", "c", "k", "hi", refused))
		w.refuses(impart.TooLarge, w.msg("ana", "c", "l", "ho", refused))
		w.stores(w.msg(impart.System, "c", "l", "the key is free"))
	}},
	{"fifty at once are one message", func(w *world) {
		w.conversation("c", "ana")
		outcomes := make([]store.Appended, 50)
		var wg sync.WaitGroup
		for i := range outcomes {
			a := w.msg("ana", "c", "k", "hi")
			wg.Go(func() { outcomes[i] = w.append(a)[0] })
		}
		wg.Wait()
		var stored []store.Appended
		for _, o := range outcomes {
			if !o.Dup {
				stored = append(stored, o)
			}
		}
		if len(stored) != 1 || stored[0].Err != nil || stored[0].Seq != 1 {
			w.t.Fatalf("stored: %+v; want exactly one at seq 1", stored)
		}
		for _, o := range outcomes {
			if o.Dup || o.Err != nil {
				w.isDup(stored[0], o)
			}
		}
		w.sees("ana", "c", "1 hi")
	}},
	{"a key is one message for ever", func(w *world) {
		w.conversation("c", "ana")
		w.conversation("c-2", "ana")
		first := w.stores(w.msg("ana", "c", "k", "hi", func(a *store.Append) { a.Ext = []byte(`{"n":1}`) }))[0]
		same := func(a *store.Append) { a.Ext = []byte(`{"n":1}`) }
		for what, other := range map[string]store.Append{
			"body":           w.msg("ana", "c", "k", "hi!", same),
			"conversation":   w.msg("ana", "c-2", "k", "hi", same),
			"type":           w.msg("ana", "c", "k", "hi", same, func(a *store.Append) { a.Type = "card" }),
			"ext":            w.msg("ana", "c", "k", "hi", func(a *store.Append) { a.Ext = []byte(`{"n":2}`) }),
			"bytes of ext":   w.msg("ana", "c", "k", "hi", func(a *store.Append) { a.Ext = []byte(`{"n": 1}`) }),
			"absence of ext": w.msg("ana", "c", "k", "hi"),
			"kind":           w.takeBack("ana", "c", "k", 1),
		} {
			w.t.Logf("another %s", what)
			w.refuses(impart.CMIDReused, other)
		}
		w.repeats(first, w.msg("ana", "c", "k", "hi", same))
		w.sees("ana", "c", "1 hi")
		w.sees("ana", "c-2")
	}},
	{"one bit of the hash is another message", func(w *world) {
		w.conversation("c", "ana")
		a := w.msg("ana", "c", "k", "hi")
		first := w.stores(a)[0]
		for i := range a.Hash {
			other := a
			other.Hash[i] ^= 0x80
			w.refuses(impart.CMIDReused, other)
		}
		w.repeats(first, a)
	}},
	{"a recall's key covers its target", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 2)
		first := w.stores(w.takeBack("ana", "c", "r", 1))[0]
		w.refuses(impart.CMIDReused, w.takeBack("ana", "c", "r", 2))
		w.refuses(impart.CMIDReused, w.takeBack("ana", "c", "r", 1, func(a *store.Append) { a.TargetMID = "mid-x" }))
		w.repeats(first, w.takeBack("ana", "c", "r", 1))
		w.sees("ana", "c", "1 recalled", "2 chat 1", "3 recall 1")
	}},
	{"prev is no part of the content", func(w *world) {
		w.conversation("c", "ana")
		first := w.stores(w.msg("ana", "c", "1", "a"), w.msg("ana", "c", "2", "b", prev("1")))[1]
		w.repeats(first, w.msg("ana", "c", "2", "b"))
		w.repeats(first, w.msg("ana", "c", "2", "b", prev("never")))
	}},
	{"who has left is told of the stored message", func(w *world) {
		w.conversation("c", "ana", "ben")
		first := w.stores(w.msg("ben", "c", "k", "bye"))[0]
		w.leaves("c", "ben")
		w.repeats(first, w.msg("ben", "c", "k", "bye"))
		w.refuses(impart.CMIDReused, w.msg("ben", "c", "k", "hello"))
		w.refuses(impart.NotMember, w.msg("ben", "c", "k2", "bye"))
	}},
	{"an old epoch comes before a known key", func(w *world) {
		w.conversation("c", "ana")
		a := w.msg("ana", "c", "k", "hi", epoch(1))
		first := w.stores(a)[0]
		now := w.raiseEpoch()
		w.refuses(impart.EpochChanged, a)
		a.Epoch = now
		w.repeats(first, a)
		a.Epoch = 0
		w.repeats(first, a)
		if got := w.append(a)[0].Epoch; got != now {
			w.t.Errorf("the duplicate says epoch %d, want the current one, %d", got, now)
		}
	}},
	{"a duplicate changes its row", func(w *world) {
		w.need(w.DedupWrites != nil, "DedupWrites")
		w.conversation("c", "ana")
		a := w.msg("ana", "c", "k", "hi")
		first := w.stores(a)[0]
		was, err := w.DedupWrites("ana", "k")
		w.must(err)
		for range 3 {
			w.repeats(first, a)
			now, err := w.DedupWrites("ana", "k")
			w.must(err)
			if now <= was {
				w.t.Fatalf("the row was written %d times before the duplicate and %d times after it", was, now)
			}
			was = now
		}
		w.refuses(impart.CMIDReused, w.msg("ana", "c", "k", "ho"))
		if n, err := w.DedupWrites("ana", "other"); n != 0 || err != nil {
			w.t.Errorf("a key that was never used: %d writes, %v", n, err)
		}
	}},
	{"a duplicate waits for its own commit", func(w *world) {
		w.need(w.OnCommit != nil, "OnCommit")
		w.conversation("c", "ana")
		a := w.msg("ana", "c", "k", "hi")
		first := w.stores(a)[0]
		h := w.hold()
		again := w.sends(a)
		h.wait()
		again.unanswered()
		h.release(nil)
		w.isDup(first, again.answer())
	}},
	{"the counts tell duplicates", func(w *world) {
		w.conversation("c", "ana")
		a := w.msg("ana", "c", "k", strings.Repeat("x", 100))
		w.stores(a)
		before := w.Store.Stats()
		w.append(a, a)
		after := w.Store.Stats()
		same(w, "dups", after.Dups-before.Dups, int64(2))
		same(w, "items", after.Items-before.Items, int64(2))
		if after.Commits <= before.Commits {
			w.t.Errorf("commits went from %d to %d over a duplicate", before.Commits, after.Commits)
		}
	}},
}
