package conformance

import (
	"cmp"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

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
