package history

import (
	"slices"

	"github.com/impart-im/impart"
)

// period is a span of membership in seqs; to 0 is open.
type period struct{ from, to impart.Seq }

// periods are a user's memberships, as the log and the creation tell of them.
func periods(c Conversation, log []impart.Event, user impart.UserID) []period {
	var spans []period
	if slices.Contains(c.Founders, user) {
		spans = append(spans, period{from: 1})
	}
	for i := range log {
		ev := &log[i]
		if ev.User != user {
			continue
		}
		switch ev.Kind {
		case impart.KindJoin:
			from := ev.Seq
			if c.History == impart.HistoryAll {
				from = 1
				if len(spans) > 0 {
					from = spans[len(spans)-1].to + 1
				}
			}
			spans = append(spans, period{from: from})
		case impart.KindLeave:
			if len(spans) > 0 {
				spans[len(spans)-1].to = ev.Seq
			}
		}
	}
	return spans
}

// Visible is what of a log a user may see (D8): what lies in their memberships,
// and the recalls of that.
func Visible(c Conversation, log []impart.Event, user impart.UserID) []impart.Event {
	spans := periods(c, log, user)
	covered := func(seq impart.Seq) bool {
		return slices.ContainsFunc(spans, func(p period) bool { return seq >= p.from && (p.to == 0 || seq <= p.to) })
	}
	var sees []impart.Event
	for i := range log {
		ev := &log[i]
		if ev.Kind == impart.KindRecall && covered(ev.Target) || ev.Kind != impart.KindRecall && covered(ev.Seq) {
			sees = append(sees, *ev)
		}
	}
	return sees
}

// sight is an event that the server showed to a user.
type sight struct {
	user  impart.UserID
	epoch impart.Epoch
	conv  impart.ConvID
	seq   impart.Seq
	mid   impart.MID
}
