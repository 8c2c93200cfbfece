package memstore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Append implements [store.Log].
func (s *Store) Append(ctx context.Context, items []store.Append) []store.Appended {
	out := make([]store.Appended, len(items))
	err := s.write(ctx, len(items), func(st *state) {
		order := make([]int, len(items))
		for i := range items {
			order[i] = i
		}
		if s.breaks[BreakOrderInCall] {
			slices.Reverse(order)
		}
		early := s.prevBefore(st, items)
		refused := error(nil)
		for _, i := range order {
			if out[i] = refusal(st, early[i]); early[i] == nil {
				out[i] = s.appendOne(st, &items[i])
			}
			if out[i].Err != nil {
				refused = out[i].Err
			}
			if out[i].Dup {
				s.dups.Add(1)
			}
		}
		if s.breaks[BreakBatchIsolation] && refused != nil {
			s.failTogether(st, items, out, refused)
		}
	})
	if err != nil {
		for i := range out {
			out[i] = store.Appended{Err: err}
		}
	}
	return out
}

// appendOne takes the steps of [store.Log.Append]. Every check comes before
// the first change, so that a refused item leaves no trace.
func (s *Store) appendOne(st *state, a *store.Append) store.Appended {
	if err := s.checkEpoch(st, a.Epoch); err != nil {
		return refusal(st, err)
	}
	if s.breaks[BreakDedupAfterMember] {
		if err := s.checkMember(st, a); err != nil {
			return refusal(st, err)
		}
	}
	if first, taken := s.firstAttempt(st, a); taken {
		return first
	}
	if a.Refused != nil {
		return s.afterRefusal(st, a, a.Refused)
	}
	if err := s.checkMember(st, a); err != nil {
		return s.afterRefusal(st, a, err)
	}
	if err := s.checkPrev(st, a); err != nil {
		return s.afterRefusal(st, a, err)
	}
	ev := &impart.Event{
		Conv: a.Conv, Kind: a.Kind, MID: a.MID, Sender: a.Sender, Device: a.Device, CMID: a.CMID,
		Type: a.Type, Body: a.Body, Ext: slices.Clone(a.Ext), At: a.At,
	}
	if a.Kind == impart.KindRecall {
		target, err := s.checkRecall(st, a)
		if err != nil {
			return s.afterRefusal(st, a, err)
		}
		ev.Target, ev.TargetMID = target.Seq, target.MID
		s.recall(st, target)
	}
	s.push(st.convs[a.Conv], ev)
	st.dedup[s.messageKey(a.Sender, a.CMID)] = &dedup{conv: a.Conv, seq: ev.Seq, mid: ev.MID, at: ev.At, hash: a.Hash, seen: 1}
	return store.Appended{Seq: ev.Seq, MID: ev.MID, At: ev.At, Epoch: st.epoch}
}

// push gives an event the next seq of its conversation.
func (s *Store) push(c *conversation, ev *impart.Event) {
	s.coarsen(ev)
	if !s.breaks[BreakSeqTwice] || len(c.log)%20 != 19 {
		c.head++
	}
	ev.Seq = c.head
	c.log = append(c.log, ev)
	c.written, c.reread = s.now(), false
}

func refusal(st *state, err error) store.Appended { return store.Appended{Epoch: st.epoch, Err: err} }

func (s *Store) checkEpoch(st *state, epoch impart.Epoch) error {
	if epoch == 0 || epoch == st.epoch || s.breaks[BreakEpochCheck] {
		return nil
	}
	return epochChanged(st, "the epoch is %d now: compare mids, then sync", st.epoch)
}

func epochChanged(st *state, format string, args ...any) error {
	err := impart.Errorf(impart.EpochChanged, format, args...)
	err.Epoch = st.epoch
	return err
}

// firstAttempt answers an item whose key is taken.
func (s *Store) firstAttempt(st *state, a *store.Append) (store.Appended, bool) {
	if s.breaks[BreakUniqueKey] {
		return store.Appended{}, false
	}
	key := s.messageKey(a.Sender, a.CMID)
	row := st.dedup[key]
	if row == nil {
		if row = s.fromEvents(st, a); row == nil {
			return store.Appended{}, false
		}
	}
	if !row.equals(a) && !s.breaks[BreakHashCheck] {
		return refusal(st, impart.Errorf(impart.CMIDReused, "cmid %q was used for another message; make a new one", a.CMID)), true
	}
	st.dedup[key] = row // only now: a refused item leaves no trace
	if !s.breaks[BreakDupWithoutWrite] {
		row.seen++
	}
	return store.Appended{Seq: row.seq, MID: row.mid, At: row.at, Dup: true, Epoch: st.epoch}, true
}

// equals reports whether an item has the content that the row was made for.
func (row *dedup) equals(a *store.Append) bool {
	if row.digest != "" {
		return row.conv == a.Conv && row.digest == digestOf(a.Kind, a.Type, a.Body, a.Ext, a.Target)
	}
	return row.hash == a.Hash
}

// digestOf tells contents apart where the caller's hash is not known.
func digestOf(kind impart.Kind, typ, body string, ext []byte, target impart.Seq) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %d", kind, typ, body, ext, target))
	return string(sum[:])
}

// fromEvents makes a cleaned dedup row again, if the log still tells of it.
func (s *Store) fromEvents(st *state, a *store.Append) *dedup {
	ev := s.logged(st, a.Conv, a.Sender, a.CMID)
	if ev == nil {
		return nil
	}
	return &dedup{
		conv: ev.Conv, seq: ev.Seq, mid: ev.MID, at: ev.At,
		digest: digestOf(ev.Kind, ev.Type, ev.Body, ev.Ext, ev.Target),
	}
}

// logged finds a sender's message in the log of a conversation. It is needed
// only once dedup rows have been cleaned away.
func (s *Store) logged(st *state, conv impart.ConvID, sender impart.UserID, cmid impart.CMID) *impart.Event {
	c := st.convs[conv]
	if c == nil || !st.cleaned || cmid == "" || s.breaks[BreakDedupEvents] {
		return nil
	}
	for _, ev := range c.log {
		if ev.Sender == sender && ev.CMID == cmid {
			return ev
		}
	}
	return nil
}

func (s *Store) checkMember(st *state, a *store.Append) error {
	c := st.convs[a.Conv]
	if c != nil && (a.Sender == impart.System || st.periods(a.Conv, a.Sender).Open() || s.breaks[BreakMembership]) {
		return nil
	}
	return notMember(a.Conv)
}

func notMember(conv impart.ConvID) error {
	return impart.Errorf(impart.NotMember, "you are not a member of %q, or it does not exist", conv)
}

func (s *Store) checkPrev(st *state, a *store.Append) error {
	if a.Prev == "" || s.breaks[BreakPrev] {
		return nil
	}
	row := st.dedup[s.messageKey(a.Sender, a.Prev)]
	if row != nil && row.conv == a.Conv {
		return nil
	}
	if row == nil && s.logged(st, a.Conv, a.Sender, a.Prev) != nil {
		return nil
	}
	return impart.Errorf(impart.OutOfOrder, "prev %q is not stored in %q: send it first, then this again", a.Prev, a.Conv)
}
