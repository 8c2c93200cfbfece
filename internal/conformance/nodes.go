package conformance

import (
	"fmt"
	"sync"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// nodeStories are about two nodes that write to one database at once.
var nodeStories = []story{
	{"one key on two nodes is one message", func(w *world) {
		nodes := w.twoNodes()
		w.conversation("c", "ana")
		for i := range 20 {
			key := impart.CMID(fmt.Sprint(i))
			items := [2]store.Append{w.msg("ana", "c", key, "hi"), w.msg("ana", "c", key, "hi")}
			var got [2]store.Appended
			w.atOnce(2, func(n int) { got[n] = nodes[n].Append(w.ctx, items[n:n+1])[0] })
			first := 0
			if got[0].Dup {
				first = 1
			}
			if got[first].Err != nil || got[first].Dup || got[first].MID != items[first].MID {
				w.t.Fatalf("cmid %s: %+v and %+v, want one of them stored", key, got[0], got[1])
			}
			w.isDup(got[first], got[1-first])
		}
		same(w, "events", len(w.whole("ana", "c", 0).Events), 20)
	}},
	{"one key to two conversations on two nodes is one message", func(w *world) {
		nodes := w.twoNodes()
		w.conversation("c-0", "ana")
		w.conversation("c-1", "ana")
		for i := range 20 {
			key := impart.CMID(fmt.Sprint(i))
			items := [2]store.Append{w.msg("ana", "c-0", key, "hi"), w.msg("ana", "c-1", key, "hi")}
			var got [2]store.Appended
			w.atOnce(2, func(n int) { got[n] = nodes[n].Append(w.ctx, items[n:n+1])[0] })
			if (got[0].Err == nil) == (got[1].Err == nil) {
				w.t.Fatalf("cmid %s: %+v and %+v, want one of them stored", key, got[0], got[1])
			}
			for n := range got {
				if got[n].Err != nil {
					w.wantCode(impart.CMIDReused, got[n].Err)
				}
			}
		}
		same(w, "events", len(w.whole("ana", "c-0", 0).Events)+len(w.whole("ana", "c-1", 0).Events), 20)
	}},
	{"the clock is one for all nodes", func(w *world) {
		nodes := w.twoNodes()
		last := w.clock()
		for i := range 6 {
			v, err := nodes[i%2].Vitals(w.ctx)
			w.must(err)
			if v.Now < last || v.Asked.IsZero() || v.Took < 0 || time.Since(v.Asked) < v.Took/2 {
				w.t.Errorf("node %d: %d at %v, which took %v; the clock said %d before", i%2, v.Now, v.Asked, v.Took, last)
			}
			last = v.Now
		}
		written := w.clock() // which may be earlier, by as long as a transaction may be under way
		v, err := nodes[0].Vitals(w.ctx)
		w.must(err)
		same(w, "Written is not ahead of it", written <= v.Now, true)
	}},
	{"two nodes give seqs without a hole or a double", func(w *world) {
		nodes := w.twoNodes()
		w.conversation("c", "ana")
		w.atOnce(8, func(i int) {
			for j := range 10 {
				a := w.msg("ana", "c", impart.CMID(fmt.Sprintf("%d-%d", i, j)), "x")
				if got := nodes[i%2].Append(w.ctx, []store.Append{a})[0]; got.Err != nil || got.Dup {
					w.t.Errorf("got %+v", got)
				}
				w.whole("ana", "c", 0) // no reader sees a gap meanwhile
			}
		})
		same(w, "events", len(w.whole("ana", "c", 0).Events), 80)
	}},
	{"batches in opposite orders lock nobody out", func(w *world) {
		nodes := w.twoNodes()
		const convs = 5
		for i := range convs {
			w.conversation(ids(i)[0], "ana")
		}
		w.atOnce(8, func(i int) {
			for j := range 6 {
				var items []store.Append
				for k := range convs {
					conv := ids(k)[0]
					if i%2 == 0 {
						conv = ids(convs - 1 - k)[0]
					}
					items = append(items, w.msg("ana", conv, impart.CMID(fmt.Sprintf("%d-%d-%d", i, j, k)), "x"))
				}
				for _, got := range nodes[i%2].Append(w.ctx, items) {
					if got.Err != nil || got.Dup {
						w.t.Errorf("got %+v", got)
					}
				}
			}
		})
		for i := range convs {
			same(w, "events", len(w.whole("ana", ids(i)[0], 0).Events), 8*6)
		}
	}},
	{"a device's first hellos on two nodes are one registration", func(w *world) {
		nodes := w.twoNodes()
		for i := range 10 {
			device := impart.DeviceID(fmt.Sprint("phone-", i))
			var got [2]store.Device
			w.atOnce(2, func(n int) {
				var err error
				if got[n], err = nodes[n].Hello(w.ctx, store.Hello{User: "ana", Device: device, Install: "x"}); err != nil {
					w.t.Error(err)
				}
			})
			same(w, "fresh", got[0].Fresh != got[1].Fresh, true)
			same(w, "installs", got[0].Install+got[1].Install, impart.InstallEpoch(2))
			same(w, "sessions differ", got[0].Session != got[1].Session, true)
		}
	}},
	{"a device that moves to another node is stale on the first", func(w *world) {
		nodes := w.twoNodes()
		w.withPhone(5)
		older := w.hello("ana", "phone", "x").Session
		w.acks(on(older, 2, 3), 2)
		newer, err := nodes[1].Hello(w.ctx, store.Hello{User: "ana", Device: "phone", Install: "x"})
		w.must(err)
		w.wantCode(impart.StaleInstall, w.advance(on(older, 4, 8)).Err)
		if got := nodes[1].Advance(w.ctx, []store.Advance{on(newer.Session, 3, 4)})[0]; got.Err != nil || got.Delivered != 3 {
			w.t.Errorf("the newer connection's ack: %+v", got)
		}
	}},
	{"acks and a hello on two nodes come one after the other", func(w *world) {
		nodes := w.twoNodes()
		w.withPhone(5)
		n := int64(100)
		w.hello("ana", "phone", "x", counter(n))
		for range 10 {
			before := w.hello("ana", "phone", "x", counter(n))
			n++
			a, back := on(before.Session, 4, n), n-1
			a.Install = before.Install
			var acked store.Advanced
			var greeted store.Device
			w.atOnce(2, func(i int) {
				if i == 0 {
					acked = nodes[0].Advance(w.ctx, []store.Advance{a})[0]
					return
				}
				var err error
				if greeted, err = nodes[1].Hello(w.ctx, store.Hello{User: "ana", Device: "phone", Install: "x", N: &back}); err != nil {
					w.t.Error(err)
				}
			})
			if greeted.Fresh != (acked.Err == nil) {
				w.t.Errorf("the ack got %+v and the hello %+v, want an ack that the hello notices, or one that is refused", acked, greeted)
			}
		}
	}},
	{"acks of one device on two nodes are merged", func(w *world) {
		nodes := w.twoNodes()
		w.withPhone(40)
		w.atOnce(8, func(i int) {
			for j := range 5 {
				seq := impart.Seq(i + 8*j)
				got := nodes[i%2].Advance(w.ctx, []store.Advance{phone("ana", "c", seq)})[0]
				if got.Err != nil || got.Delivered < seq {
					w.t.Errorf("ack of %d: %+v", seq, got)
				}
				if got := nodes[i%2].MarkRead(w.ctx, []store.MarkRead{{User: "ana", Conv: "c", Seq: seq}})[0]; got.Err != nil || got.Read < seq {
					w.t.Errorf("read of %d: %+v", seq, got)
				}
			}
		})
		same(w, "delivered", w.lag("ana", "phone", 1, "c").Delivered, impart.Seq(39))
		same(w, "read", w.conv("ana", "phone", "c").Read, impart.Seq(39))
	}},
	{"what one node has answered the other knows", func(w *world) {
		nodes := w.twoNodes()
		w.conversation("c", "ana", "ben")
		for i := range 10 {
			w.says("ana", "c", "x")
			page, err := nodes[1].Page(w.ctx, ask("ben", "c"))
			w.must(err)
			same(w, "head", page.Head, impart.Seq(i+1))
		}
		w.leaves("c", "ben")
		w.wantCode(impart.NotMember, nodes[1].Append(w.ctx, []store.Append{w.msg("ben", "c", "late", "x")})[0].Err)
		_, _, err := nodes[1].PutMember(w.ctx, "c", impart.Member{User: "ben"}, impart.System, w.stamp)
		w.must(err)
		w.stores(w.msg("ben", "c", "back", "x"))
		now := w.raiseEpoch()
		w.wantCode(impart.EpochChanged, nodes[1].Append(w.ctx, []store.Append{w.msg("ana", "c", "old", "x", epoch(1))})[0].Err)
		if got := nodes[1].Append(w.ctx, []store.Append{w.msg("ana", "c", "new", "x", epoch(now))})[0]; got.Err != nil || got.Epoch != now {
			w.t.Errorf("in the new epoch: %+v", got)
		}
	}},
	{"who another node lets in, puts out or promotes is so for the next append", func(w *world) {
		nodes := w.twoNodes()
		w.conversation("c", "ana", "ben")
		for i := range 3 {
			key := func(what string) impart.CMID { return impart.CMID(fmt.Sprint(what, i)) }
			at := w.stores(w.msg("ana", "c", key("a"), "x"), w.msg("ben", "c", key("b"), "x"))[0].Seq
			_, _, err := nodes[1].RemoveMember(w.ctx, "c", "ben", impart.System, w.stamp)
			w.must(err)
			w.refuses(impart.NotMember, w.msg("ben", "c", key("out"), "x"))
			_, _, err = nodes[1].PutMember(w.ctx, "c", impart.Member{User: "ben", Role: impart.RoleMember}, impart.System, w.stamp)
			w.must(err)
			w.stores(w.msg("ben", "c", key("in"), "x"))
			later := w.says("ana", "c", "y")
			w.refuses(impart.RecallRefused, w.takeBack("ben", "c", key("r"), later))
			_, _, err = nodes[1].PutMember(w.ctx, "c", impart.Member{User: "ben", Role: impart.RoleAdmin}, impart.System, w.stamp)
			w.must(err)
			w.stores(w.takeBack("ben", "c", key("r"), later))
			_, _, err = nodes[1].PutMember(w.ctx, "c", impart.Member{User: "ben", Role: impart.RoleMember}, impart.System, w.stamp)
			w.must(err)
			w.refuses(impart.RecallRefused, w.takeBack("ben", "c", key("s"), at))
		}
	}},
	{"one conversation made on two nodes is made once", func(w *world) {
		nodes := w.twoNodes()
		for i := range 10 {
			spec := impart.ConvSpec{Conv: ids(i)[0], Kind: impart.Group, Members: []impart.Member{{User: "ana"}, {User: impart.UserID(fmt.Sprint("ben-", i))}}}
			var created [2]bool
			w.atOnce(2, func(n int) {
				var err error
				if _, created[n], err = nodes[n].PutConversation(w.ctx, spec, w.stamp); err != nil {
					w.t.Error(err)
				}
			})
			same(w, "created once", created[0] != created[1], true)
		}
	}},
	{"members come and go on two nodes without a double", func(w *world) {
		nodes := w.twoNodes()
		w.conversation("c", "ana")
		for range 10 {
			var joined, left [2]bool
			w.atOnce(2, func(n int) {
				var err error
				if _, joined[n], err = nodes[n].PutMember(w.ctx, "c", impart.Member{User: "ben"}, impart.System, w.stamp); err != nil {
					w.t.Error(err)
				}
			})
			same(w, "joined once", joined[0] != joined[1], true)
			w.atOnce(2, func(n int) {
				var err error
				if _, left[n], err = nodes[n].RemoveMember(w.ctx, "c", "ben", impart.System, w.stamp); err != nil {
					w.t.Error(err)
				}
			})
			same(w, "left once", left[0] != left[1], true)
		}
		same(w, "events", len(w.whole("ana", "c", 0).Events), 20)
	}},
	{"a message is recalled once on two nodes", func(w *world) {
		nodes := w.twoNodes()
		w.conversation("c", "ana")
		for i := range 10 {
			seq := w.says("ana", "c", "x")
			items := [2]store.Append{
				w.takeBack("ana", "c", impart.CMID(fmt.Sprint("r0-", i)), seq), w.takeBack("ana", "c", impart.CMID(fmt.Sprint("r1-", i)), seq),
			}
			var got [2]store.Appended
			w.atOnce(2, func(n int) { got[n] = nodes[n].Append(w.ctx, items[n:n+1])[0] })
			if (got[0].Err == nil) == (got[1].Err == nil) {
				w.t.Fatalf("two recalls of one message: %+v and %+v, want one of them refused", got[0], got[1])
			}
		}
	}},
	{"a key that one node cleans away is decided by events on the other", func(w *world) {
		nodes := w.twoNodes()
		w.conversation("c", "ana")
		for i := range 10 {
			a := w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), "x")
			first := w.stores(a)[0]
			var got store.Appended
			w.atOnce(2, func(n int) {
				if n == 0 {
					if _, _, err := nodes[0].CleanDedup(w.ctx, impart.MaxNumber, 100); err != nil {
						w.t.Error(err)
					}
					return
				}
				got = nodes[1].Append(w.ctx, []store.Append{a})[0]
			})
			w.isDup(first, got)
		}
	}},
	{"the other node's long commit is found from the clock before it", func(w *world) {
		w.need(w.OnCommit != nil, "OnCommit")
		nodes := w.twoNodes()
		w.conversation("c", "ana")
		w.nextMilli()
		h := w.hold()
		held := w.sends(w.msg("ana", "c", "k", "held"))
		h.wait()
		for began := time.Now(); time.Since(began) < 20*time.Millisecond; {
			w.spin("some milliseconds pass")
		}
		during, err := nodes[1].Written(w.ctx, 0, 10)
		w.must(err)
		h.release(nil)
		held.answer()
		after, err := nodes[1].Written(w.ctx, during.Now-nodes[1].Stats().Slowest-1, 10)
		w.must(err)
		same(w, "found by the other node", len(after.Heads), 1)
	}},
	{"everything on two nodes at once", func(w *world) {
		nodes := w.twoNodes()
		w.conversation("c", "ana", "ben")
		w.hello("ben", "phone", "x")
		var mu sync.Mutex
		sent := map[impart.CMID]store.Appended{}
		w.atOnce(6, func(i int) {
			s := nodes[i%2]
			for j := range 15 {
				switch i / 2 {
				case 0:
					a := w.msg("ana", "c", impart.CMID(fmt.Sprintf("%d-%d", i, j)), "x")
					first := s.Append(w.ctx, []store.Append{a})[0]
					again := nodes[1-i%2].Append(w.ctx, []store.Append{a})[0]
					if first.Err != nil || first.Dup || !again.Dup || again.Seq != first.Seq {
						w.t.Errorf("first %+v, again on the other node %+v", first, again)
					}
					mu.Lock()
					sent[a.CMID] = first
					mu.Unlock()
				case 1:
					lags, err := s.Lags(w.ctx, []impart.LagQuery{{Session: impart.Session{User: "ben", Device: "phone", Install: 1}, Conv: "c"}})
					if err != nil {
						w.t.Error(err)
						continue
					}
					if got := s.Advance(w.ctx, []store.Advance{phone("ben", "c", lags[0].Head)})[0]; got.Err != nil {
						w.t.Error(got.Err)
					}
				default:
					if _, _, err := s.PutMember(w.ctx, "c", impart.Member{User: "cy"}, impart.System, w.stamp); err != nil {
						w.t.Error(err)
					}
					if _, _, err := s.RemoveMember(w.ctx, "c", "cy", impart.System, w.stamp); err != nil {
						w.t.Error(err)
					}
				}
			}
		})
		page := w.whole("ben", "c", 0)
		for cmid, first := range sent {
			if ev := page.Events[first.Seq-1]; ev.CMID != cmid || ev.MID != first.MID {
				w.t.Errorf("cmid %s was stored as %+v, and there is %s", cmid, first, word(&ev))
			}
		}
	}},
}

// twoNodes are this world's store and another node's on the same data.
func (w *world) twoNodes() [2]store.Store {
	w.t.Helper()
	return [2]store.Store{w.Store, w.second()}
}
