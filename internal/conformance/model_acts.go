package conformance

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Send appends up to three items in one call.
func (m *machine) Send(rt *rapid.T) {
	var items []store.Append
	for range rapid.IntRange(1, 3).Draw(rt, "items") {
		items = append(items, m.anItem(rt))
	}
	m.appendTo(rt, items...)
}

func (m *machine) anItem(rt *rapid.T) store.Append {
	conv := pick(rt, "conv", someConvs...)
	sender := m.someone(rt, conv)
	cmid := pick(rt, "cmid", someCMIDs...)
	adapt := func(a *store.Append) {
		a.Epoch = m.anEpoch(rt)
		if seldom(rt, "follows", 3) {
			a.Prev = pick(rt, "prev", someCMIDs...)
		}
	}
	if seldom(rt, "a new cmid", 2) {
		cmid += impart.CMID(fmt.Sprint(m.ticks.Load()))
	}
	return m.msg(sender, conv, cmid, pick(rt, "body", "", "a", "b", "b "), adapt, func(a *store.Append) {
		a.Ext = pick(rt, "ext", nil, nil, nil, []byte(`{}`))
	})
}

// Recall takes back something, mostly by its sender.
func (m *machine) Recall(rt *rapid.T) {
	conv := pick(rt, "conv", someConvs...)
	target, sender := m.aMessage(rt, conv)
	if seldom(rt, "another", 4) {
		sender = m.someone(rt, conv)
	}
	cmid := impart.CMID("r-" + fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "cmid")))
	item := m.takeBack(sender, conv, cmid, target, func(a *store.Append) {
		a.Epoch = m.anEpoch(rt)
		if seldom(rt, "window", 4) {
			a.NotBefore = a.At - 10
		}
		if seldom(rt, "with mid", 6) {
			a.TargetMID = "mid-x"
		}
	})
	m.appendTo(rt, item)
}

// appendTo appends items to both stores in one call.
func (m *machine) appendTo(rt *rapid.T, items ...store.Append) {
	m.both(rt, fmt.Sprintf("append %+v", items), func(s store.Store) answer {
		var out []answer
		for _, o := range s.Append(m.ctx, items) {
			err := o.Err
			o.Err = nil
			out = append(out, answered(o, err))
		}
		return answered(out, nil)
	})
}

// Join adds a member, or changes a role.
func (m *machine) Join(rt *rapid.T) {
	conv := pick(rt, "conv", someConvs...)
	member := impart.Member{User: pick(rt, "user", someUsers...), Role: pick(rt, "role", impart.RoleMember, impart.RoleAdmin)}
	mid, at := m.stamp()
	m.both(rt, fmt.Sprintf("join %+v to %s", member, conv), func(s store.Store) answer {
		info, joined, err := s.PutMember(m.ctx, conv, member, impart.System, func() (impart.MID, impart.Millis) { return mid, at })
		return answered([]any{info, joined}, err)
	})
}

// Leave removes a member.
func (m *machine) Leave(rt *rapid.T) {
	conv, user := pick(rt, "conv", someConvs...), pick(rt, "user", someUsers...)
	mid, at := m.stamp()
	m.both(rt, fmt.Sprintf("leave of %s from %s", user, conv), func(s store.Store) answer {
		info, left, err := s.RemoveMember(m.ctx, conv, user, impart.System, func() (impart.MID, impart.Millis) { return mid, at })
		return answered([]any{info, left}, err)
	})
}

// PutConversation creates one, or adds members to it.
func (m *machine) PutConversation(rt *rapid.T) {
	spec := impart.ConvSpec{
		Conv: pick(rt, "conv", someConvs...), Kind: pick(rt, "kind", impart.Group, impart.Group, impart.Direct),
		History: pick(rt, "history", impart.FromJoin, impart.HistoryAll),
	}
	for _, user := range []impart.UserID{"Ben", "ana", "ben"} { // ascending
		if seldom(rt, "member", 2) {
			spec.Members = append(spec.Members, impart.Member{User: user})
		}
	}
	m.put(rt, spec)
}

// Hello connects a device.
func (m *machine) Hello(rt *rapid.T) {
	h := store.Hello{
		User: pick(rt, "user", someUsers...), Device: pick(rt, "device", someDevices...),
		Install: pick[string](rt, "install", "x", "x", "x", "y"),
	}
	if seldom(rt, "with n", 2) {
		n := rapid.Int64Range(0, 5).Draw(rt, "n")
		h.N = &n
	}
	if seldom(rt, "with history", 2) {
		n := rapid.Int64Range(0, 5).Draw(rt, "history")
		h.History = &n
	}
	m.greet(rt, h)
}

// Visit is a hello over HTTP.
func (m *machine) Visit(rt *rapid.T) {
	user, device, install := pick(rt, "user", someUsers...), pick(rt, "device", someDevices...), pick(rt, "install", "x", "y")
	m.both(rt, fmt.Sprintf("visit of %s %s %s", user, device, install), func(s store.Store) answer {
		d, err := s.Visit(m.ctx, user, device, install)
		return answered(d, err)
	})
}

// Ack moves a delivery cursor.
func (m *machine) Ack(rt *rapid.T) {
	a := store.Advance{
		User: pick(rt, "user", someUsers...), Device: pick[impart.DeviceID](rt, "device", "phone", "phone", "laptop"),
		Epoch: m.anEpoch(rt), Conv: pick(rt, "conv", someConvs...),
	}
	a.Install, a.Seq = m.anInstall(rt, a.User, a.Device), m.aSeq(rt, "seq", a.Conv)
	a.Session = m.aSession(rt, a.User, a.Device)
	if seldom(rt, "with n", 2) {
		n := rapid.Int64Range(0, 5).Draw(rt, "n")
		a.N = &n
	}
	m.both(rt, fmt.Sprintf("ack %+v", a), func(s store.Store) answer {
		got := s.Advance(m.ctx, []store.Advance{a})[0]
		err := got.Err
		got.Err = nil
		return answered(got, err)
	})
}

// Read moves a read cursor.
func (m *machine) Read(rt *rapid.T) {
	r := store.MarkRead{User: pick(rt, "user", someUsers...), Epoch: m.anEpoch(rt), Conv: pick(rt, "conv", someConvs...)}
	r.Seq = m.aSeq(rt, "seq", r.Conv)
	m.both(rt, fmt.Sprintf("read %+v", r), func(s store.Store) answer {
		got := s.MarkRead(m.ctx, []store.MarkRead{r})[0]
		err := got.Err
		got.Err = nil
		return answered(got, err)
	})
}

// Upkeep seldom raises the epoch, retains or cleans.
func (m *machine) Upkeep(rt *rapid.T) {
	switch rapid.IntRange(0, 5).Draw(rt, "upkeep") {
	case 0:
		got := m.both(rt, "raise epoch", func(s store.Store) answer {
			e, err := s.RaiseEpoch(m.ctx, 0)
			return answered(e, err)
		})
		m.epoch = got.Got.(impart.Epoch)
	case 1:
		before := epochStart + impart.Millis(m.ticks.Load()-rapid.Int64Range(-1, 20).Draw(rt, "kept"))
		m.both(rt, fmt.Sprintf("retain %d", before), func(s store.Store) answer {
			removed, more, err := s.Retain(m.ctx, before, 1000)
			return answered([]any{removed, more}, err)
		})
	case 2:
		m.both(rt, "clean dedup", func(s store.Store) answer {
			_, more, err := s.CleanDedup(m.ctx, impart.MaxNumber, 1000)
			return answered(more, err)
		})
	}
}
