package conformance

import (
	"slices"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var memberStories = []story{
	{"joined at 50, left at 80, back at 120", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 49)
		same(w, "join", w.joins("c", "ben"), 50)
		w.chatter("ana", "c", 29)
		same(w, "leave", w.leaves("c", "ben"), 80)
		w.chatter("ana", "c", 39)
		same(w, "join", w.joins("c", "ben"), 120)
		w.chatter("ana", "c", 10)

		want := slices.Concat(count(50, 80), count(120, 130))
		page := w.after("ben", "c", 0)
		same(w, "ben's seqs", seqs(page.Events), want)
		same(w, "head", page.Head, impart.Seq(130))
		same(w, "through", page.Through, impart.Seq(130))

		w.hello("ben", "phone", "x")
		same(w, "ben's lag", w.lag("ben", "phone", 1, "c"), impart.Lag{Head: 130, Delivered: 49})
		same(w, "in small pages", w.catchUp("ben", "c", 7), want)
		same(w, "ben's lag", w.lag("ben", "phone", 1, "c"), impart.Lag{Head: 130, Delivered: 130})
		same(w, "ana's seqs", len(w.after("ana", "c", 0).Events), 130)
	}},
	{"a former member keeps what they saw", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.says("ana", "c", "with ben")
		w.leaves("c", "ben")
		w.says("ana", "c", "without")
		page := w.after("ben", "c", 0)
		same(w, "events", words(page.Events), []string{"1 with ben", "2 leave ben"})
		same(w, "head", page.Head, impart.Seq(2))
		same(w, "through", page.Through, impart.Seq(2))
		same(w, "more", page.More, false)
		w.hello("ben", "phone", "x")
		w.acks(phone("ben", "c", 2), 2)
		w.reads("ben", "c", 2, 2)
		w.wantCode(impart.CursorAhead, w.advance(phone("ben", "c", 3)).Err)
		w.wantCode(impart.CursorAhead, w.markRead(store.MarkRead{User: "ben", Conv: "c", Seq: 3}).Err)
		got := w.conv("ben", "phone", "c")
		same(w, "last", word(got.Last), "2 leave ben")
		same(w, "head", got.Head, impart.Seq(2))
	}},
	{"the first members see from seq 1 and nobody is announced", func(w *world) {
		w.create(impart.ConvSpec{Conv: "c", Kind: impart.Group}, "ana", "ben")
		info, err := w.Store.Conversation(w.ctx, "c")
		w.must(err)
		open := impart.Periods{{From: 1}}
		same(w, "conversation", info, impart.ConvInfo{
			Conv: "c", Kind: impart.Group, History: impart.FromJoin,
			Members: []impart.MemberInfo{
				{User: "ana", Role: impart.RoleMember, Periods: open}, {User: "ben", Role: impart.RoleMember, Periods: open},
			},
		})
		w.sees("ben", "c")
		w.says("ana", "c", "first")
		w.sees("ben", "c", "1 first")
	}},
	{"with history from_join a newcomer sees from their join on", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 2)
		w.joins("c", "ben")
		w.says("ana", "c", "welcome")
		w.sees("ben", "c", "3 join ben", "4 welcome")
		back := ask("ben", "c")
		back.Back, back.Before = true, 5
		same(w, "back", words(w.page(back).Events), []string{"4 welcome", "3 join ben"})
	}},
	{"with history all a newcomer sees everything", func(w *world) {
		w.create(impart.ConvSpec{Conv: "c", Kind: impart.Group, History: impart.HistoryAll}, "ana")
		w.says("ana", "c", "old")
		w.joins("c", "ben")
		w.leaves("c", "ben")
		w.says("ana", "c", "meanwhile")
		w.sees("ben", "c", "1 old", "2 join ben", "3 leave ben")
		w.joins("c", "ben")
		w.sees("ben", "c", "1 old", "2 join ben", "3 leave ben", "4 meanwhile", "5 join ben")
		same(w, "periods", w.periods("c", "ben"), impart.Periods{{From: 1, To: 3}, {From: 4}})
	}},
	{"joining twice and leaving twice happen once", func(w *world) {
		w.conversation("c", "ana")
		ben := impart.Member{User: "ben", Role: impart.RoleMember}
		w.joins("c", "ben")
		info, joined, err := w.Store.PutMember(w.ctx, "c", ben, impart.System, w.stamp)
		w.must(err)
		same(w, "joined again", joined, false)
		same(w, "head", info.Head, impart.Seq(1))
		w.leaves("c", "ben")
		for _, user := range []impart.UserID{"ben", "eve"} {
			info, left, err := w.Store.RemoveMember(w.ctx, "c", user, impart.System, w.stamp)
			w.must(err)
			same(w, "left again", left, false)
			same(w, "head", info.Head, impart.Seq(2))
		}
		same(w, "periods", w.periods("c", "ben"), impart.Periods{{From: 1, To: 2}})
		w.sees("ana", "c", "1 join ben", "2 leave ben")
	}},
	{"a role is kept until it is changed", func(w *world) {
		w.create(impart.ConvSpec{Conv: "c", Kind: impart.Group, Members: []impart.Member{{User: "ana", Role: impart.RoleAdmin}}}, "ben")
		same(w, "roles", w.roles("c"), []impart.Role{impart.RoleAdmin, impart.RoleMember})
		w.role("c", "ana", "")
		w.role("c", "ben", "")
		same(w, "roles", w.roles("c"), []impart.Role{impart.RoleAdmin, impart.RoleMember})
		w.role("c", "ana", impart.RoleMember)
		w.role("c", "ben", impart.RoleAdmin)
		same(w, "roles", w.roles("c"), []impart.Role{impart.RoleMember, impart.RoleAdmin})
		w.sees("ana", "c")
	}},
	{"PUT of a conversation is idempotent and removes nobody", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.says("ana", "c", "one")
		put := func(members ...impart.UserID) impart.ConvInfo {
			spec := impart.ConvSpec{Conv: "c", Kind: impart.Group, History: impart.FromJoin}
			for _, m := range members {
				spec.Members = append(spec.Members, impart.Member{User: m})
			}
			info, created, err := w.Store.PutConversation(w.ctx, spec, w.stamp)
			w.must(err)
			same(w, "created", created, false)
			return info
		}
		same(w, "head", put("ana", "ben").Head, impart.Seq(1))
		same(w, "head", put("ana").Head, impart.Seq(1))
		stamps := w.ticks.Load()
		same(w, "head", put("ana", "cy", "dan").Head, 3)
		same(w, "stamps", w.ticks.Load()-stamps, 2)
		info := put("cy", "dan")
		same(w, "head", info.Head, impart.Seq(3))
		var users []impart.UserID
		for _, m := range info.Members {
			users = append(users, m.User)
		}
		same(w, "members", users, []impart.UserID{"ana", "ben", "cy", "dan"})
		w.sees("ben", "c", "1 one", "2 join cy", "3 join dan")
		w.sees("dan", "c", "3 join dan")
	}},
	{"another kind or history is a conflict", func(w *world) {
		w.conversation("c", "ana", "ben")
		ab := []impart.Member{{User: "ana"}, {User: "ben"}}
		for _, spec := range []impart.ConvSpec{
			{Conv: "c", Kind: impart.Direct, History: impart.FromJoin, Members: ab},
			{Conv: "c", Kind: impart.Group, History: impart.HistoryAll, Members: append(ab, impart.Member{User: "cy"})},
		} {
			_, _, err := w.Store.PutConversation(w.ctx, spec, w.stamp)
			w.wantCode(impart.Conflict, err)
		}
		w.sees("ana", "c")
	}},
	{"a direct conversation has two members for ever", func(w *world) {
		put := func(members ...impart.UserID) error {
			spec := impart.ConvSpec{Conv: "c", Kind: impart.Direct, History: impart.FromJoin}
			for _, m := range members {
				spec.Members = append(spec.Members, impart.Member{User: m})
			}
			_, _, err := w.Store.PutConversation(w.ctx, spec, w.stamp)
			return err
		}
		w.wantCode(impart.Invalid, put())
		w.wantCode(impart.Invalid, put("ana"))
		w.wantCode(impart.Invalid, put("ana", "ana"))
		w.wantCode(impart.Invalid, put("ana", "ben", "cy"))
		w.refuses(impart.NotMember, w.msg("ana", "c", "k", "nothing was made"))
		w.must(put("ana", "ben"))
		w.must(put("ben", "ana"))
		w.wantCode(impart.Invalid, put("ana", "cy"))
		_, _, err := w.Store.PutMember(w.ctx, "c", impart.Member{User: "cy"}, impart.System, w.stamp)
		w.wantCode(impart.Invalid, err)
		_, _, err = w.Store.RemoveMember(w.ctx, "c", "ben", impart.System, w.stamp)
		w.wantCode(impart.Invalid, err)
		w.says("ana", "c", "just us")
		w.sees("ben", "c", "1 just us")
	}},
	{"what does not exist is not found", func(w *world) {
		_, err := w.Store.Conversation(w.ctx, "c")
		w.wantCode(impart.NotFound, err)
		_, err = w.Store.Audience(w.ctx, "c")
		w.wantCode(impart.NotFound, err)
		_, err = w.Store.Range(w.ctx, "c", 1, 2, 3)
		w.wantCode(impart.NotFound, err)
		_, _, err = w.Store.PutMember(w.ctx, "c", impart.Member{User: "ana"}, impart.System, w.stamp)
		w.wantCode(impart.NotFound, err)
		_, _, err = w.Store.RemoveMember(w.ctx, "c", "ana", impart.System, w.stamp)
		w.wantCode(impart.NotFound, err)
		_, err = w.Store.Delivery(w.ctx, "c", 1)
		w.wantCode(impart.NotFound, err)
	}},
	{"the audience is who may see, and its version tells changes", func(w *world) {
		w.conversation("c", "ana", "ben")
		version := int64(0)
		changed := func(what string, members map[impart.UserID]impart.Periods, current int) {
			w.t.Helper()
			a, err := w.Store.Audience(w.ctx, "c")
			w.must(err)
			r, err := w.Store.Range(w.ctx, "c", 1, 99, 99)
			w.must(err)
			if a.Version == version || r.Members != a.Version {
				w.t.Errorf("%s: the version went from %d to %d; Range says %d", what, version, a.Version, r.Members)
			}
			version = a.Version
			same(w, what, a, &impart.Audience{Conv: "c", Version: version, Members: members, Current: current})
		}
		open := impart.Periods{{From: 1}}
		changed("created", map[impart.UserID]impart.Periods{"ana": open, "ben": open}, 2)
		w.joins("c", "cy")
		changed("joined", map[impart.UserID]impart.Periods{"ana": open, "ben": open, "cy": open}, 3)
		w.leaves("c", "ben")
		gone := impart.Periods{{From: 1, To: 2}}
		changed("left", map[impart.UserID]impart.Periods{"ana": open, "ben": gone, "cy": open}, 2)
		w.joins("c", "ben")
		back := impart.Periods{{From: 1, To: 2}, {From: 3}}
		changed("back", map[impart.UserID]impart.Periods{"ana": open, "ben": back, "cy": open}, 3)
	}},
	{"joins and sends at once leave no hole", func(w *world) {
		w.conversation("c", "ana")
		w.atOnce(4, func(i int) {
			user := impart.UserID([]string{"ben", "cy", "dan", "eve"}[i])
			for j := range 5 {
				w.lands(w.msg("ana", "c", impart.CMID(string(user)+string(rune('a'+j))), "x"))
				if _, _, err := w.Store.PutMember(w.ctx, "c", impart.Member{User: user}, impart.System, w.stamp); err != nil {
					w.t.Error(err)
				}
				if _, _, err := w.Store.RemoveMember(w.ctx, "c", user, impart.System, w.stamp); err != nil {
					w.t.Error(err)
				}
			}
		})
		page := w.whole("ana", "c", 0)
		same(w, "head", page.Head, impart.Seq(60))
		for _, user := range []impart.UserID{"ben", "cy", "dan", "eve"} {
			same(w, "periods of "+string(user), len(w.periods("c", user)), 5)
			for _, p := range w.periods("c", user) {
				for _, end := range []impart.Seq{p.From, p.To} {
					if ev := page.Events[end-1]; ev.User != user {
						w.t.Errorf("%s has period %+v, and seq %d is %s", user, p, end, word(&ev))
					}
				}
			}
		}
	}},
}

func (w *world) periods(conv impart.ConvID, user impart.UserID) impart.Periods {
	w.t.Helper()
	a, err := w.Store.Audience(w.ctx, conv)
	w.must(err)
	return a.Members[user]
}

func (w *world) roles(conv impart.ConvID) []impart.Role {
	w.t.Helper()
	info, err := w.Store.Conversation(w.ctx, conv)
	w.must(err)
	var roles []impart.Role
	for _, m := range info.Members {
		roles = append(roles, m.Role)
	}
	return roles
}

// catchUp reads on from where the user's phone stands, page by page, and acks
// each page's through.
func (w *world) catchUp(user impart.UserID, conv impart.ConvID, limit int) []impart.Seq {
	w.t.Helper()
	var got []impart.Seq
	for {
		q := ask(user, conv)
		q.After, q.Limit = w.lag(user, "phone", 1, conv).Delivered, limit
		page := w.page(q)
		got = append(got, seqs(page.Events)...)
		if page.Through < q.After || page.Through > page.Head || (page.More && page.Through == q.After) {
			w.t.Fatalf("after %d came through %d, head %d, more %t", q.After, page.Through, page.Head, page.More)
		}
		w.acks(phone(user, conv, page.Through), page.Through)
		if !page.More {
			return got
		}
	}
}
