package conformance

import (
	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var userStories = []story{
	{"a user is known by PUT or by hello", func(w *world) {
		_, err := w.Store.User(w.ctx, "ana")
		w.wantCode(impart.NotFound, err)
		w.putUser(impart.UserInfo{User: "ana"}, nil, nil)
		w.hello("ben", "phone", "x")
		for _, user := range []impart.UserID{"ana", "ben"} {
			got, err := w.Store.User(w.ctx, user)
			w.must(err)
			same(w, "user", got, impart.UserInfo{User: user})
		}
		_, err = w.Store.User(w.ctx, "Ana")
		w.wantCode(impart.NotFound, err)
	}},
	{"a user is barred and readmitted", func(w *world) {
		yes, no := true, false
		w.putUser(impart.UserInfo{User: "ana", Disabled: true}, &yes, nil)
		w.putUser(impart.UserInfo{User: "ana", Disabled: true}, nil, nil)
		w.hello("ana", "phone", "x") // the store refuses nobody
		w.putUser(impart.UserInfo{User: "ana", Disabled: true}, nil, nil)
		w.putUser(impart.UserInfo{User: "ana"}, &no, nil)
	}},
	{"a revocation only rises", func(w *world) {
		yes := true
		at := func(m impart.Millis) *impart.Millis { return &m }
		w.putUser(impart.UserInfo{User: "ana", Revoked: 1_700_000_000_005}, nil, at(1_700_000_000_005))
		w.putUser(impart.UserInfo{User: "ana", Revoked: 1_700_000_000_005}, nil, at(1_700_000_000_004))
		w.putUser(impart.UserInfo{User: "ana", Revoked: 1_700_000_000_005, Disabled: true}, &yes, nil)
		w.putUser(impart.UserInfo{User: "ana", Revoked: 1_700_000_000_006, Disabled: true}, nil, at(1_700_000_000_006))
	}},
	{"whoever is barred is told with the sessions", func(w *world) {
		yes, no, at := true, false, impart.Millis(1_700_000_000_005)
		ana, tablet := w.hello("ana", "phone", "x").Session, w.hello("ana", "tablet", "x").Session
		ben := w.hello("ben", "phone", "x").Session
		asked := []impart.Session{
			{User: "ben", Device: "phone"}, {User: "ana", Device: "phone"}, {User: "ana", Device: "unknown"},
			{User: "Ana", Device: "phone"}, {User: "ana", Device: "tablet"},
		}
		stand := func(disabled bool, revoked impart.Millis) {
			w.t.Helper()
			got, err := w.Store.Standings(w.ctx, asked)
			w.must(err)
			same(w, "standings", got, []store.Standing{
				{Session: ben},
				{Session: ana, Disabled: disabled, Revoked: revoked},
				{Disabled: disabled, Revoked: revoked},
				{},
				{Session: tablet, Disabled: disabled, Revoked: revoked},
			})
		}
		stand(false, 0)
		w.putUser(impart.UserInfo{User: "ana", Disabled: true}, &yes, nil)
		stand(true, 0)
		w.putUser(impart.UserInfo{User: "ana", Disabled: true, Revoked: at}, nil, &at)
		stand(true, at)
		w.putUser(impart.UserInfo{User: "ana", Revoked: at}, &no, nil)
		stand(false, at)
	}},
}

// putUser changes a user and checks what is kept then.
func (w *world) putUser(want impart.UserInfo, disabled *bool, revoked *impart.Millis) {
	w.t.Helper()
	got, err := w.Store.PutUser(w.ctx, want.User, disabled, revoked)
	w.must(err)
	same(w, "put", got, want)
	got, err = w.Store.User(w.ctx, want.User)
	w.must(err)
	same(w, "user", got, want)
}
