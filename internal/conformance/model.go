package conformance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/memstore"
)

// model does the same random things to the store under test and to memstore,
// and wants the same answers and the same refusals. What the contract leaves
// open (the version's value, the store's clock) is not compared.
func model(t *testing.T, open func(t *testing.T) Subject) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{
			world: &world{ctx: context.WithoutCancel(t.Context())},
			real:  open(t).Store, ideal: memstore.New(memstore.Options{}),
		}
		defer func() {
			if err := m.real.Close(); err != nil {
				rt.Errorf("closing the store: %v", err)
			}
		}()
		m.found(rt)
		for range 2 {
			rt.Repeat(rapid.StateMachineActions(m))
		}
		m.lookAtEverything(rt)
	})
}

// machine holds the two stores. Its exported methods are what can happen.
type machine struct {
	*world
	real, ideal store.Store
	epoch       impart.Epoch
}

// Check implements [rapid.StateMachine]; each action compares what it did.
func (m *machine) Check(*rapid.T) {}

// answer is what a store said.
type answer struct {
	Got   any
	Code  impart.Code
	Epoch impart.Epoch // with EPOCH_CHANGED
}

func answered(got any, err error) answer {
	a := answer{Got: got, Code: impart.CodeOf(err)}
	if err != nil {
		a.Epoch = impart.AsError(err).Epoch
	}
	return a
}

// both asks both stores and compares.
func (m *machine) both(rt *rapid.T, what string, do func(store.Store) answer) answer {
	rt.Helper()
	want, got := do(m.ideal), do(m.real)
	if want.Code == impart.Unavailable {
		rt.Fatalf("%s: the model failed", what)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		rt.Fatalf("%s (-model +store):\n%s", what, diff)
	}
	return got
}

// The people and things of the model: few, so that they meet often.
var (
	someUsers   = []impart.UserID{"ana", "ben", "Ben"}
	someConvs   = []impart.ConvID{"c-direct", "c-join", "c-all", "c-late"}
	someDevices = []impart.DeviceID{"phone", "laptop"}
	someCMIDs   = []impart.CMID{"k", "k ", "K", "l", "m", "n", "o", "p"}
)

func pick[T any](rt *rapid.T, what string, from ...T) T {
	return rapid.SampledFrom(from).Draw(rt, what)
}

func seldom(rt *rapid.T, what string, oneIn int) bool {
	return rapid.IntRange(1, oneIn).Draw(rt, what) == oneIn
}

// aSeq is mostly one of the conversation's, seldom just outside.
func (m *machine) aSeq(rt *rapid.T, what string, conv impart.ConvID) impart.Seq {
	info, err := m.ideal.Conversation(m.ctx, conv)
	if err != nil {
		return impart.Seq(rapid.IntRange(0, 2).Draw(rt, what))
	}
	return impart.Seq(rapid.Int64Range(-1, int64(info.Head)+2).Draw(rt, what))
}

// someone is mostly a member, seldom anybody.
func (m *machine) someone(rt *rapid.T, conv impart.ConvID) impart.UserID {
	var members []impart.UserID
	if a, err := m.ideal.Audience(m.ctx, conv); err == nil {
		for _, user := range someUsers {
			if a.Members[user].Open() {
				members = append(members, user)
			}
		}
	}
	if len(members) == 0 || seldom(rt, "anybody", 5) {
		return pick(rt, "user", append([]impart.UserID{impart.System}, someUsers...)...)
	}
	return pick(rt, "member", members...)
}

// aMessage is mostly a message of the conversation, seldom any seq.
func (m *machine) aMessage(rt *rapid.T, conv impart.ConvID) (impart.Seq, impart.UserID) {
	r, err := m.ideal.Range(m.ctx, conv, 1, impart.MaxNumber, impart.MaxLimit)
	messages := slices.DeleteFunc(r.Events, func(ev impart.Event) bool { return ev.Kind != impart.KindMsg })
	if err != nil || len(messages) == 0 || seldom(rt, "any seq", 5) {
		return max(m.aSeq(rt, "target", conv), 0), m.someone(rt, conv)
	}
	ev := pick(rt, "message", messages...)
	return ev.Seq, ev.Sender
}

// anInstall is mostly the device's own, seldom another.
func (m *machine) anInstall(rt *rapid.T, user impart.UserID, device impart.DeviceID) impart.InstallEpoch {
	list, err := m.ideal.Devices(m.ctx, device, user)
	if err != nil || len(list) == 0 || seldom(rt, "another install", 8) {
		return impart.InstallEpoch(rapid.IntRange(0, 3).Draw(rt, "install"))
	}
	return list[0].Install
}

// anEpoch is mostly the current one, or none.
func (m *machine) anEpoch(rt *rapid.T) impart.Epoch {
	return pick(rt, "epoch", 0, 0, 0, 0, m.epoch, m.epoch, m.epoch, m.epoch, m.epoch-1)
}

// found makes the conversations that are there from the beginning.
func (m *machine) found(rt *rapid.T) {
	m.epoch = 1
	for _, spec := range []impart.ConvSpec{
		{Conv: "c-direct", Kind: impart.Direct, History: impart.FromJoin, Members: []impart.Member{{User: "ana"}, {User: "ben"}}},
		{Conv: "c-join", Kind: impart.Group, History: impart.FromJoin, Members: []impart.Member{{User: "ana", Role: impart.RoleAdmin}}},
		{Conv: "c-all", Kind: impart.Group, History: impart.HistoryAll, Members: []impart.Member{{User: "ben"}}},
	} {
		m.put(rt, spec)
	}
	for _, user := range someUsers {
		m.greet(rt, store.Hello{User: user, Device: "phone", Install: "x"})
	}
}

// put is PutConversation with stamps that are equal for both stores.
func (m *machine) put(rt *rapid.T, spec impart.ConvSpec) {
	base := m.ticks.Add(10)
	m.both(rt, fmt.Sprintf("PUT %+v", spec), func(s store.Store) answer {
		n := base
		info, created, err := s.PutConversation(m.ctx, spec, func() (impart.MID, impart.Millis) {
			n++
			return impart.MID(fmt.Sprintf("mid-%08d", n)), epochStart + impart.Millis(n)
		})
		return answered([]any{info, created}, err)
	})
}

func (m *machine) greet(rt *rapid.T, h store.Hello) {
	_, h.Now = m.stamp()
	m.both(rt, fmt.Sprintf("hello %+v", h), func(s store.Store) answer {
		d, err := s.Hello(m.ctx, h)
		d.Session = 0
		return answered(d, err)
	})
}

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
		d.Session = 0
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

// Page reads one page, either way.
func (m *machine) Page(rt *rapid.T) {
	q := ask(pick(rt, "user", someUsers...), pick(rt, "conv", someConvs...))
	q.Back, q.Limit, q.Epoch = seldom(rt, "back", 3), rapid.IntRange(1, 4).Draw(rt, "limit"), m.anEpoch(rt)
	q.After, q.Before = m.aSeq(rt, "after", q.Conv), m.aSeq(rt, "before", q.Conv)
	m.page(rt, q)
}

func (m *machine) page(rt *rapid.T, q store.PageQuery) {
	m.both(rt, fmt.Sprintf("page %+v", q), func(s store.Store) answer {
		p, err := s.Page(m.ctx, q)
		events := plain(p.Events)
		p.Events = nil
		if p.More && !q.Back {
			// Anywhere up to the next visible event is right; the suite checks that.
			if last := events[len(events)-1].Seq; p.Through < last || p.Through >= p.Head {
				rt.Errorf("through %d of a page that ends at %d of %d", p.Through, last, p.Head)
			}
			p.Through = 0
		}
		return answered([]any{p, events}, err)
	})
}

// plain leaves out what only the server's own reads have to tell, and makes
// nothing of nothing.
func plain(events []impart.Event) []impart.Event {
	out := make([]impart.Event, 0, len(events))
	for _, ev := range events {
		ev.Device = ""
		if len(ev.Ext) == 0 {
			ev.Ext = nil
		}
		out = append(out, ev)
	}
	return out
}

// LookAtUser compares what one user sees.
func (m *machine) LookAtUser(rt *rapid.T) { m.lookAtUser(rt, pick(rt, "user", someUsers...)) }

// LookAtConversation compares what the server sees of one conversation.
func (m *machine) LookAtConversation(rt *rapid.T) {
	m.lookAtConversation(rt, pick(rt, "conv", someConvs...))
}

// lookAtEverything compares all that can be read.
func (m *machine) lookAtEverything(rt *rapid.T) {
	for _, user := range someUsers {
		m.lookAtUser(rt, user)
		for _, conv := range someConvs {
			m.page(rt, ask(user, conv))
		}
	}
	for _, conv := range someConvs {
		m.lookAtConversation(rt, conv)
	}
}

func (m *machine) lookAtUser(rt *rapid.T, user impart.UserID) {
	for _, device := range someDevices {
		m.both(rt, fmt.Sprintf("conversations of %s %s", user, device), func(s store.Store) answer {
			page, err := s.Convs(m.ctx, user, device, "", 100, impart.MaxPage)
			for i := range page.Convs {
				if last := page.Convs[i].Last; last != nil {
					page.Convs[i].Last = &plain([]impart.Event{*last})[0]
				}
			}
			return answered(page, err)
		})
		m.lookAtInstall(rt, impart.Session{User: user, Device: device, Install: m.anInstall(rt, user, device)})
	}
}

func (m *machine) lookAtInstall(rt *rapid.T, session impart.Session) {
	m.both(rt, fmt.Sprintf("lags of %+v", session), func(s store.Store) answer {
		var queries []impart.LagQuery
		for _, conv := range someConvs {
			queries = append(queries, impart.LagQuery{Session: session, Conv: conv})
		}
		lags, err := s.Lags(m.ctx, queries)
		return answered(lags, err)
	})
	for _, all := range []bool{false, true} {
		q := store.LaggingQuery{User: session.User, Device: session.Device, Install: session.Install, All: all, Limit: 100}
		m.both(rt, fmt.Sprintf("lagging %+v", q), func(s store.Store) answer {
			page, err := s.Lagging(m.ctx, q)
			slices.SortFunc(page.Convs, func(a, b impart.ConvState) int { return cmp.Compare(a.Conv, b.Conv) })
			return answered(append([]impart.ConvState{}, page.Convs...), err)
		})
	}
}

func (m *machine) lookAtConversation(rt *rapid.T, conv impart.ConvID) {
	info := m.both(rt, "conversation "+string(conv), func(s store.Store) answer {
		info, err := s.Conversation(m.ctx, conv)
		return answered(info, err)
	}).Got.(impart.ConvInfo)
	m.both(rt, "audience of "+string(conv), func(s store.Store) answer {
		a, err := s.Audience(m.ctx, conv)
		if a != nil {
			a.Version = 0
		}
		return answered(a, err)
	})
	m.both(rt, "range of "+string(conv), func(s store.Store) answer {
		r, err := s.Range(m.ctx, conv, 1, impart.MaxNumber, impart.MaxLimit)
		r.Members = 0
		for i := range r.Events {
			if len(r.Events[i].Ext) == 0 {
				r.Events[i].Ext = nil
			}
		}
		r.Events = append([]impart.Event{}, r.Events...)
		return answered(r, err)
	})
	if info.Head == info.Floor {
		return
	}
	seq := impart.Seq(rapid.Int64Range(int64(info.Floor)+1, int64(info.Head)).Draw(rt, "reported"))
	for _, user := range someUsers {
		m.both(rt, fmt.Sprintf("report to %s of %s %d", user, conv, seq), func(s store.Store) answer {
			r, err := s.Report(m.ctx, impart.Who{User: user, Conv: conv, Seq: seq, Limit: 100})
			return answered(r, err)
		})
	}
	m.both(rt, fmt.Sprintf("delivery of %s %d", conv, seq), func(s store.Store) answer {
		d, err := s.Delivery(m.ctx, conv, seq)
		d.Event.Device = ""
		for i := range d.Users {
			for j := range d.Users[i].Devices {
				d.Users[i].Devices[j].Updated = 0 // by the store's clock
			}
		}
		return answered(d, err)
	})
}
