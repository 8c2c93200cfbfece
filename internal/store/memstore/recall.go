package memstore

import (
	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// checkRecall finds the message that a recall may take back.
func (s *Store) checkRecall(st *state, a *store.Append) (*impart.Event, error) {
	c := st.convs[a.Conv]
	ps, head := st.periods(a.Conv, a.Sender), c.head
	if a.Sender != impart.System {
		head = c.seen(ps)
	}
	if a.Target < 0 || a.Target > head {
		return nil, cursorAhead(a.Target, head)
	}
	target := c.at(a.Target)
	switch {
	case target == nil || target.Kind != impart.KindMsg || (a.Sender != impart.System && !ps.Sees(target)):
		return nil, refuseRecall("there is no message of yours to see at seq %d", a.Target)
	case target.Recalled && !s.breaks[BreakRecallTwice]:
		return nil, refuseRecall("the message at seq %d is already recalled", a.Target)
	case a.TargetMID != "" && a.TargetMID != target.MID:
		return nil, refuseRecall("the message at seq %d has another mid", a.Target)
	case target.At < a.NotBefore && !s.breaks[BreakRecallWindow]:
		return nil, refuseRecall("the message at seq %d is too old to be recalled", a.Target)
	case s.breaks[BreakRecallRights] || target.Sender == a.Sender || a.Sender == impart.System:
		return target, nil
	}
	if m := c.members[a.Sender]; m == nil || m.role != impart.RoleAdmin {
		return nil, refuseRecall("the message at seq %d is not yours and you are no admin of %q", a.Target, a.Conv)
	}
	return target, nil
}

func refuseRecall(format string, args ...any) error {
	return impart.Errorf(impart.RecallRefused, format, args...)
}

// recall empties the target and keeps its dedup row for ever (D17).
func (s *Store) recall(st *state, target *impart.Event) {
	digest := digestOf(target.Kind, target.Type, target.Body, target.Ext, target.Target)
	target.Recalled = true
	if !s.breaks[BreakRecallBody] {
		target.Body, target.Ext = "", nil
	}
	key := s.messageKey(target.Sender, target.CMID)
	if st.dedup[key] == nil {
		// Cleaned away before: the row has to come back, because the event may go too.
		st.dedup[key] = &dedup{conv: target.Conv, seq: target.Seq, mid: target.MID, at: target.At, digest: digest}
	}
	st.dedup[key].recalled = true
}

func cursorAhead(seq, head impart.Seq) error {
	return impart.Errorf(impart.CursorAhead, "seq=%d head=%d: that event is not there yet", seq, head)
}
