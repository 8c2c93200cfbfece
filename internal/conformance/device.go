package conformance

import (
	"math"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// hello connects a device of user with an install.
func (w *world) hello(user impart.UserID, device impart.DeviceID, install string, changes ...func(*store.Hello)) store.Device {
	w.t.Helper()
	h := store.Hello{User: user, Device: device, Install: install}
	for _, c := range changes {
		c(&h)
	}
	d, err := w.Store.Hello(w.ctx, h)
	w.must(err)
	return d
}

func counter(n int64) func(*store.Hello) { return func(h *store.Hello) { h.N = &n } }

func history(n int64) func(*store.Hello) { return func(h *store.Hello) { h.History = &n } }

// phone is the device that most stories use, in its first install.
func phone(user impart.UserID, conv impart.ConvID, seq impart.Seq) store.Advance {
	return store.Advance{User: user, Device: "phone", Install: 1, Conv: conv, Seq: seq}
}

// on is an ack of ana's phone on the connection with this session.
func on(session int64, seq impart.Seq, n int64) store.Advance {
	a := phone("ana", "c", seq)
	a.Session, a.N = session, &n
	return a
}

func (w *world) advance(a store.Advance) store.Advanced {
	w.t.Helper()
	out := w.Store.Advance(w.ctx, []store.Advance{a})
	if len(out) != 1 {
		w.t.Fatalf("one ack got %d outcomes", len(out))
	}
	return out[0]
}

// acks acknowledges and checks where the cursor is then.
func (w *world) acks(a store.Advance, want impart.Seq) store.Advanced {
	w.t.Helper()
	got := w.advance(a)
	if got.Err != nil || got.Delivered != want {
		w.t.Errorf("%s acked %d of %s: got %+v, want delivered %d", a.User, a.Seq, a.Conv, got, want)
	}
	return got
}

// lag is where a device stands.
func (w *world) lag(user impart.UserID, device impart.DeviceID, install impart.InstallEpoch, conv impart.ConvID) impart.Lag {
	w.t.Helper()
	s := impart.Session{User: user, Device: device, Install: install}
	lags, err := w.Store.Lags(w.ctx, []impart.LagQuery{{Session: s, Conv: conv}})
	w.must(err)
	if len(lags) != 1 {
		w.t.Fatalf("one query got %d lags", len(lags))
	}
	return lags[0]
}

// reads moves the user's read cursor and checks where it is then.
func (w *world) reads(user impart.UserID, conv impart.ConvID, seq, want impart.Seq) store.MarkedRead {
	w.t.Helper()
	got := w.markRead(store.MarkRead{User: user, Conv: conv, Seq: seq})
	if got.Err != nil || got.Read != want {
		w.t.Errorf("%s read %d of %s: got %+v, want read %d", user, seq, conv, got, want)
	}
	return got
}

func (w *world) markRead(m store.MarkRead) store.MarkedRead {
	w.t.Helper()
	out := w.Store.MarkRead(w.ctx, []store.MarkRead{m})
	if len(out) != 1 {
		w.t.Fatalf("one read got %d outcomes", len(out))
	}
	return out[0]
}

// raiseEpoch starts a new history.
func (w *world) raiseEpoch() impart.Epoch {
	w.t.Helper()
	e, err := w.Store.RaiseEpoch(w.ctx, 0)
	w.must(err)
	return e
}

// conv is one conversation as Convs lists it.
func (w *world) conv(user impart.UserID, device impart.DeviceID, conv impart.ConvID) impart.ConvState {
	w.t.Helper()
	page, err := w.Store.Convs(w.ctx, user, device, "", impart.MaxLimit, math.MaxInt32)
	w.must(err)
	for _, c := range page.Convs {
		if c.Conv == conv {
			return c
		}
	}
	w.t.Fatalf("%s does not see %q among %d conversations", user, conv, len(page.Convs))
	return impart.ConvState{}
}
