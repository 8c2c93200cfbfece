package logic_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/store/memstore"
)

// Whatever happens to a conversation, push, sync, history and pull show a user
// the same events, which are those of a model of the protocol's words, and each
// commit is announced by one wake-up that covers it.
func TestEveryRoadShowsTheSame(t *testing.T) { // D7, D8
	rapid.Check(t, func(rt *rapid.T) {
		w := startWorld(t, memstore.New(memstore.Options{}), func(cfg *logic.Config) { cfg.Metrics = nil })
		defer w.Close()
		m := &roads{world: w, rt: rt, seen: map[impart.UserID]map[impart.Seq]bool{}, members: map[impart.UserID]bool{}}
		m.history = rapid.SampledFrom([]impart.History{impart.FromJoin, impart.HistoryAll}).Draw(rt, "history")
		spec := impart.ConvSpec{Conv: "c", Kind: impart.Group, History: m.history, Members: []impart.Member{{User: ana, Role: impart.RoleAdmin}}}
		if _, _, err := w.PutConversation(w.ctx, spec); err != nil {
			rt.Fatal(err)
		}
		m.members[ana] = true
		for _, user := range []impart.UserID{ana, ben, cy} {
			m.seen[user] = map[impart.Seq]bool{}
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			m.step()
		}
		m.compare()
	})
}

// roads is a conversation together with what the protocol says of who sees what.
type roads struct {
	*world
	rt      *rapid.T
	history impart.History
	head    impart.Seq
	targets []impart.Seq // messages that can be recalled
	members map[impart.UserID]bool
	seen    map[impart.UserID]map[impart.Seq]bool
}

// stored is one more event, visible to the members of the moment.
func (m *roads) stored() {
	m.head++
	for user := range m.members {
		m.seen[user][m.head] = true
	}
	if wakes := m.bus.take(bus.Wake); len(wakes) != 1 || wakes[0].From != m.head || wakes[0].Head != m.head {
		m.rt.Fatalf("event %d was announced by %+v", m.head, wakes)
	}
}

func (m *roads) step() {
	user := rapid.SampledFrom([]impart.UserID{ben, cy}).Draw(m.rt, "user")
	m.bus.take(0)
	switch rapid.IntRange(0, 5).Draw(m.rt, "what") {
	case 0:
		if _, err := m.PutMember(m.ctx, "c", impart.Member{User: user}); err != nil {
			m.rt.Fatal(err)
		}
		if m.members[user] {
			return
		}
		m.members[user] = true
		if m.history == impart.HistoryAll {
			for seq := range m.head {
				m.seen[user][seq+1] = true
			}
		}
		m.stored()
	case 1:
		if _, err := m.RemoveMember(m.ctx, "c", user); err != nil {
			m.rt.Fatal(err)
		}
		if m.members[user] {
			m.stored()
			delete(m.members, user)
		}
	case 2:
		m.recall()
	default:
		sent := m.try(m.message(user, "c", "hi"))
		if m.members[user] != (sent.Err == nil) {
			m.rt.Fatalf("%s is a member: %v, and sends: %v", user, m.members[user], sent.Err)
		}
		if sent.Err == nil {
			m.stored()
			m.targets = append(m.targets, m.head)
		}
	}
}

// recall takes a message back. Whoever may see the message, and nobody else,
// may see that.
func (m *roads) recall() {
	if len(m.targets) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.targets)-1).Draw(m.rt, "target")
	target := m.targets[i]
	m.targets = slices.Delete(m.targets, i, i+1)
	if _, err := m.Recall(m.ctx, impart.Recall{Sender: ana, Conv: "c", Seq: target, CMID: impart.CMID(fmt.Sprint("r", target))}); err != nil {
		m.rt.Fatal(err)
	}
	m.stored()
	for user, seen := range m.seen {
		if seen[target] {
			seen[m.head] = true
		} else {
			delete(m.seen[user], m.head)
		}
	}
}

func (m *roads) compare() {
	for _, user := range []impart.UserID{ana, ben, cy} {
		want := slices.Sorted(maps.Keys(m.seen[user]))
		if len(want) == 0 && !m.members[user] {
			continue
		}
		for road, got := range map[string][]impart.Seq{
			"sync": seqsOf(m.sees(user, "c")), "push": m.pushes(user), "pull": m.pulls(user), "history": m.goesBack(user),
		} {
			if !slices.Equal(got, want) {
				m.rt.Fatalf("%s gets %v by %s, want %v", user, got, road, want)
			}
		}
	}
}

func (m *roads) pushes(user impart.UserID) (seqs []impart.Seq) {
	for from := impart.Seq(1); from <= m.head; {
		part := m.rangeOf("c", from, m.head)
		seqs = append(seqs, pushed(part, user)...)
		from = part.Events[len(part.Events)-1].Seq + 1
	}
	return seqs
}

func (m *roads) pulls(user impart.UserID) (seqs []impart.Seq) {
	session := m.device(user, "phone")
	for more := true; more; {
		pulled := m.pull(session, 7)
		for _, page := range pulled.Convs {
			seqs = append(seqs, seqsOf(page.Events)...)
		}
		m.ackAll(session, pulled)
		more = pulled.More
	}
	if rest := m.pull(session, 7); len(rest.Convs) != 0 {
		m.rt.Fatalf("%s is told that there is no more, and then gets %+v", user, rest)
	}
	return seqs
}

func (m *roads) goesBack(user impart.UserID) []impart.Seq {
	var events []impart.Event
	page, err := m.Sync(m.ctx, impart.Sync{User: user, Conv: "c", After: ptr(impart.Seq(0)), Limit: 1})
	if err != nil {
		m.rt.Fatal(err)
	}
	for before := page.Head + 1; ; {
		page, err := m.Sync(m.ctx, impart.Sync{User: user, Conv: "c", Before: &before, Limit: 7})
		if err != nil {
			m.rt.Fatal(err)
		}
		events = append(events, page.Events...)
		if !page.More {
			break
		}
		before = page.Events[len(page.Events)-1].Seq
	}
	slices.Reverse(events)
	return seqsOf(events)
}

func seqsOf(events []impart.Event) (seqs []impart.Seq) {
	for i := range events {
		seqs = append(seqs, events[i].Seq)
	}
	return seqs
}
