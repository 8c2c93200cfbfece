package random

import (
	"fmt"
	"maps"
	"slices"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// Event is short for what the raw client reads.
type Event = rawclient.Event

// period is a span of membership in seqs; to 0 is open.
type period struct{ from, to int64 }

// model says who may see what of one conversation. It is made from the whole
// log and from what the test asked for when it created the conversation, and
// shares no code with the server.
type model struct {
	founders []string
	history  string // from_join or all
	log      map[int64]Event
	head     int64
}

func newModel(c conversation, log []Event) *model {
	m := &model{founders: c.founders, history: c.history, log: map[int64]Event{}}
	for _, ev := range log {
		m.log[ev.Seq] = ev
		m.head = max(m.head, ev.Seq)
	}
	return m
}

// periods are a user's memberships.
func (m *model) periods(user string) []period {
	var spans []period
	if slices.Contains(m.founders, user) {
		spans = append(spans, period{from: 1})
	}
	for seq := int64(1); seq <= m.head; seq++ {
		ev := m.log[seq]
		if ev.User != user {
			continue
		}
		switch ev.Kind {
		case "join":
			from := seq
			if m.history == "all" {
				from = 1
				if len(spans) > 0 {
					from = spans[len(spans)-1].to + 1
				}
			}
			spans = append(spans, period{from: from})
		case "leave":
			spans[len(spans)-1].to = seq
		}
	}
	return spans
}

// visible is what of the log a user may see, by seq.
func (m *model) visible(user string) map[int64]Event {
	spans := m.periods(user)
	covered := func(seq int64) bool {
		return slices.ContainsFunc(spans, func(p period) bool { return seq >= p.from && (p.to == 0 || seq <= p.to) })
	}
	sees := map[int64]Event{}
	for seq, ev := range m.log {
		if ev.Kind == "recall" && covered(ev.Target) || ev.Kind != "recall" && covered(seq) {
			sees[seq] = ev
		}
	}
	return sees
}

// whole checks the log itself: no hole (D7), every event once (D2, D12).
func (m *model) whole(conv string, log []Event) (wrong []string) {
	mids, keys := map[string]int64{}, map[[2]string]int64{}
	for i, ev := range log {
		if ev.Seq != int64(i+1) {
			wrong = append(wrong, fmt.Sprintf("D7: %s has seq %d at place %d", conv, ev.Seq, i+1))
		}
		if first := mids[ev.Mid]; first != 0 {
			wrong = append(wrong, fmt.Sprintf("D2: %s has mid %s at %d and %d", conv, ev.Mid, first, ev.Seq))
		}
		mids[ev.Mid] = ev.Seq
		if ev.CMID == "" {
			continue
		}
		key := [2]string{ev.Sender, ev.CMID}
		if first := keys[key]; first != 0 {
			wrong = append(wrong, fmt.Sprintf("D2: %s has %s's cmid %s at %d and %d", conv, ev.Sender, ev.CMID, first, ev.Seq))
		}
		keys[key] = ev.Seq
	}
	return wrong
}

// compare says how what a device holds differs from what its user may see.
func compare(name string, held []Event, sees map[int64]Event) (wrong []string) {
	mine := map[int64]Event{}
	for _, ev := range held {
		mine[ev.Seq] = ev
	}
	for _, seq := range slices.Sorted(maps.Keys(sees)) {
		got, ok := mine[seq]
		switch want := sees[seq]; {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("D5: %s lacks seq %d (%s %q)", name, seq, want.Kind, want.Body))
		case got.Mid != want.Mid || got.Body != want.Body || got.Sender != want.Sender || got.CMID != want.CMID || got.Recalled != want.Recalled:
			wrong = append(wrong, fmt.Sprintf("D17/D2: %s holds %+v, the log %+v", name, got, want))
		}
	}
	for _, seq := range slices.Sorted(maps.Keys(mine)) {
		if _, ok := sees[seq]; !ok {
			wrong = append(wrong, fmt.Sprintf("D8: %s holds seq %d (%s %q), which its user may not see", name, seq, mine[seq].Kind, mine[seq].Body))
		}
	}
	return wrong
}
