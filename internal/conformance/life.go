package conformance

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var lifeStories = []story{
	{"a reopened store knows everything", func(w *world) {
		w.need(w.Reopen != nil, "Reopen")
		w.create(impart.ConvSpec{Conv: "c", Kind: impart.Group, History: impart.HistoryAll, Members: []impart.Member{{User: "ana", Role: impart.RoleAdmin}}}, "ben")
		first := w.msg("ana", "c", "k", "hi", func(a *store.Append) { a.Ext = []byte(`{"n":1}`) })
		stored := w.stores(first)[0]
		w.chatter("ben", "c", 3)
		w.recalls("ana", "c", 2)
		w.joins("c", "cy")
		w.leaves("c", "ben")
		yes, revoked := true, impart.Millis(77)
		w.putUser(impart.UserInfo{User: "cy", Disabled: true, Revoked: 77}, &yes, &revoked)
		w.hello("ana", "phone", "x", counter(5), history(3))
		before := w.hello("ana", "phone", "x", counter(6))
		w.retains(w.after("ana", "c", 1).Events[0].At, 10, 1, false)
		epoch := w.raiseEpoch()
		w.acks(phone("ana", "c", 6), 6)
		w.reads("ana", "c", 4, 4)
		told := w.everything()

		for range 2 {
			w.Store = w.Reopen(w.t)
			same(w, "everything", w.everything(), told)
			meta, err := w.Store.Meta(w.ctx)
			w.must(err)
			same(w, "epoch", meta.Epoch, epoch)
			w.repeats(stored, first)
		}
		again := w.hello("ana", "phone", "x", counter(6))
		same(w, "hello", again, store.Device{Install: 1, N: 6, Session: before.Session + 1, Epoch: epoch})
		same(w, "seq", w.says("ana", "c", "on it goes"), 8)
	}},
	{"the incarnation outlives a restart", func(w *world) {
		w.need(w.Reopen != nil, "Reopen")
		before, err := w.Store.Meta(w.ctx)
		w.must(err)
		w.Store = w.Reopen(w.t)
		after, err := w.Store.Meta(w.ctx)
		w.must(err)
		same(w, "meta", after, before)
	}},
	{"a closed store refuses everything", func(w *world) {
		w.withPhone(3)
		w.must(w.Store.Close())
		for what, err := range w.everyCall() {
			if impart.CodeOf(err) != impart.Unavailable {
				w.t.Errorf("%s of a closed store: got %v, want UNAVAILABLE", what, err)
			}
		}
		w.Store.Stats() // still answers
	}},
	{"closing finishes what is under way", func(w *world) {
		w.need(w.OnCommit != nil && w.Reopen != nil, "OnCommit and Reopen")
		w.conversation("c", "ana")
		h := w.hold()
		late := w.sends(w.msg("ana", "c", "k", "just in time"))
		h.wait()
		closed := make(chan error, 1)
		s := w.Store
		go func() { closed <- s.Close() }()
		// Let it begin; a store may answer pings until it has finished.
		for began := time.Now(); s.Ping(w.ctx) == nil && time.Since(began) < 50*time.Millisecond; {
			runtime.Gosched()
		}
		h.release(nil)
		if got := late.answer(); got.Err != nil || got.Seq != 1 {
			w.t.Errorf("what was under way got %+v, want seq 1", got)
		}
		w.must(<-closed)
		w.Store = w.Reopen(w.t)
		w.sees("ana", "c", "1 just in time")
	}},
	{"closing under load answers everybody truly", func(w *world) {
		w.need(w.Reopen != nil, "Reopen")
		w.conversation("c", "ana")
		s := w.Store
		var mu sync.Mutex
		sent := map[impart.CMID]store.Appended{}
		items := map[impart.CMID]store.Append{}
		started := make(chan struct{}, 1)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for j := range 50 {
					a := w.msg("ana", "c", impart.CMID(fmt.Sprintf("%d-%d", i, j)), "x")
					got := s.Append(w.ctx, []store.Append{a})[0]
					mu.Lock()
					items[a.CMID] = a
					if got.Err == nil {
						sent[a.CMID] = got
					}
					mu.Unlock()
					select {
					case started <- struct{}{}:
					default:
					}
				}
			})
		}
		<-started
		w.must(s.Close())
		wg.Wait()
		w.Store = w.Reopen(w.t)
		page := w.whole("ana", "c", 0)
		if len(page.Events) < len(sent) {
			w.t.Errorf("%d were told that they are stored, and %d are", len(sent), len(page.Events))
		}
		for cmid, first := range sent {
			if ev := page.Events[first.Seq-1]; ev.CMID != cmid || ev.MID != first.MID {
				w.t.Errorf("cmid %s was stored as %+v, and there is %+v", cmid, first, ev)
			}
			w.repeats(first, items[cmid])
		}
	}},
	{"the store answers for its health and settings", func(w *world) {
		w.must(w.Store.Ping(w.ctx))
		settings, err := w.Store.Settings(w.ctx)
		w.must(err)
		if len(settings) == 0 {
			w.t.Error("the store names no setting on which durability depends")
		}
		for _, s := range settings {
			if s.Name == "" || s.Value == "" || s.Want == "" || s.Why == "" {
				w.t.Errorf("a setting does not explain itself: %+v", s)
			}
		}
	}},
	{"work is counted", func(w *world) {
		before := w.Store.Stats()
		w.withPhone(3)
		w.acks(phone("ana", "c", 1), 1)
		after := w.Store.Stats()
		if after.Commits <= before.Commits || after.Items < before.Items+4 || after.Queue != 0 || after.Dups != 0 {
			w.t.Errorf("after three messages and an ack: %+v, before: %+v", after, before)
		}
		w.after("ana", "c", 0)
		if got := w.Store.Stats(); got.Reads <= after.Reads || got.Commits != after.Commits {
			w.t.Errorf("after a page: %+v, before: %+v", got, after)
		}
	}},
}

// everything is what a store tells of the world of "a reopened store".
func (w *world) everything() []any {
	w.t.Helper()
	var out []any
	add := func(v any, err error) {
		w.t.Helper()
		w.must(err)
		out = append(out, v)
	}
	for _, user := range []impart.UserID{"ana", "ben", "cy"} {
		out = append(out, w.after(user, "c", 0), w.conv(user, "phone", "c"))
	}
	add(w.Store.Conversation(w.ctx, "c"))
	add(w.Store.Audience(w.ctx, "c"))
	add(w.Store.Range(w.ctx, "c", 1, 99, 99))
	add(w.Store.Report(w.ctx, impart.Who{User: "ana", Conv: "c", Seq: 4, Limit: 10}))
	add(w.Store.Delivery(w.ctx, "c", 4))
	add(w.Store.Devices(w.ctx, "phone", ""))
	add(w.Store.Lagging(w.ctx, store.LaggingQuery{User: "ana", Device: "phone", Install: 1, All: true, Limit: 10}))
	add(w.Store.User(w.ctx, "ana"))
	add(w.Store.User(w.ctx, "cy"))
	heads, err := w.Store.Written(w.ctx, 1, 10)
	add(heads.Heads, err)
	return out
}

// everyCall calls each method once and gives its error.
func (w *world) everyCall() map[string]error {
	errs := map[string]error{
		"append":  w.Store.Append(w.ctx, []store.Append{w.msg("ana", "c", "k", "x")})[0].Err,
		"advance": w.Store.Advance(w.ctx, []store.Advance{phone("ana", "c", 1)})[0].Err,
		"read":    w.Store.MarkRead(w.ctx, []store.MarkRead{{User: "ana", Conv: "c", Seq: 1}})[0].Err,
		"ping":    w.Store.Ping(w.ctx),
	}
	_, errs["page"] = w.Store.Page(w.ctx, ask("ana", "c"))
	_, errs["range"] = w.Store.Range(w.ctx, "c", 1, 2, 3)
	_, errs["written"] = w.Store.Written(w.ctx, 1, 10)
	_, errs["lagging"] = w.Store.Lagging(w.ctx, store.LaggingQuery{User: "ana", Device: "phone", Install: 1, Limit: 1})
	_, errs["lags"] = w.Store.Lags(w.ctx, []impart.LagQuery{{Session: impart.Session{User: "ana", Device: "phone", Install: 1}, Conv: "c"}})
	_, errs["convs"] = w.Store.Convs(w.ctx, "ana", "phone", "", 1, impart.MaxPage)
	_, errs["report"] = w.Store.Report(w.ctx, impart.Who{User: "ana", Conv: "c", Seq: 1, Limit: 1})
	_, errs["hello"] = w.Store.Hello(w.ctx, store.Hello{User: "ana", Device: "phone", Install: "x"})
	_, errs["visit"] = w.Store.Visit(w.ctx, "ana", "phone", "x")
	_, errs["standings"] = w.Store.Standings(w.ctx, []impart.Session{{User: "ana", Device: "phone"}})
	_, errs["devices"] = w.Store.Devices(w.ctx, "phone", "")
	_, errs["put user"] = w.Store.PutUser(w.ctx, "ana", nil, nil)
	_, errs["user"] = w.Store.User(w.ctx, "ana")
	_, _, errs["put conversation"] = w.Store.PutConversation(w.ctx, impart.ConvSpec{Conv: "c-2", Kind: impart.Group}, w.stamp)
	_, _, errs["put member"] = w.Store.PutMember(w.ctx, "c", impart.Member{User: "ben"}, impart.System, w.stamp)
	_, _, errs["remove member"] = w.Store.RemoveMember(w.ctx, "c", "ana", impart.System, w.stamp)
	_, errs["conversation"] = w.Store.Conversation(w.ctx, "c")
	_, errs["audience"] = w.Store.Audience(w.ctx, "c")
	_, errs["delivery"] = w.Store.Delivery(w.ctx, "c", 1)
	_, errs["meta"] = w.Store.Meta(w.ctx)
	_, errs["raise epoch"] = w.Store.RaiseEpoch(w.ctx, 0)
	_, _, errs["retain"] = w.Store.Retain(w.ctx, 1, 1)
	_, _, errs["clean dedup"] = w.Store.CleanDedup(w.ctx, 1, 1)
	_, errs["dedup keys"] = w.Store.DedupKeys(w.ctx, 1, 1)
	_, errs["settings"] = w.Store.Settings(w.ctx)
	return errs
}
