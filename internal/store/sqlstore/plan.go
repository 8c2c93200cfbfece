package sqlstore

import (
	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/store"
)

// This file plans appends without touching a database: from what a transaction
// has read, it works out every outcome and every row to write. It is the same
// for every dialect.

// convState is a conversation as the transaction sees it.
type convState struct {
	id      impart.ConvID
	kind    impart.ConvKind
	history impart.History
	next    impart.Seq // the seq that the next event gets
	floor   impart.Seq
	version int64
	moved   *plan // the plan that moved next last
	whole   bool  // the log was seen to end where next says
	torn    bool  // the look at it from outside says that it does not
	damage  *damage
	// newest is the conversation's newest recall, if that was read; seq 0 if there is
	// none. It spares readHead the look.
	newest *recallMark
}

func (c *convState) last() impart.Seq { return c.next - 1 }

// member is a user in a conversation.
type member struct {
	periods impart.Periods
	role    impart.Role
}

// dedupKey is the unique key of a message, compared byte for byte.
type dedupKey struct {
	user impart.UserID
	cmid impart.CMID
}

func keyOf(user impart.UserID, cmid impart.CMID) dedupKey {
	if fault.Planted(fault.KeysCollide) {
		return dedupKey{"", impart.CMID(user) + ":" + cmid}
	}
	return dedupKey{user, cmid}
}

// dedupRow is what is known of a key that is taken.
type dedupRow struct {
	conv impart.ConvID
	seq  impart.Seq
	mid  impart.MID
	at   impart.Millis
	hash contentHash
}

// facts are what the transaction has read for one item. A nil is something that
// is not there.
type facts struct {
	conv   *convState
	member *member
	taken  *dedupRow     // by the item's key
	logged *impart.Event // the item's event, where its dedup row was cleaned away
	prev   *dedupRow     // by the key of Prev
	// prevLogged says that the event of Prev is there without its dedup row.
	prevLogged bool
	target     *impart.Event // of a recall; shared by all items that name it
	head       impart.Seq    // of a recall's sender, before this plan
}

// plan is what a transaction is to write, and what it then answers.
type plan struct {
	epoch    impart.Epoch
	outcomes []store.Appended

	convs    []*convState   // whose next seq moved
	events   []impart.Event // to insert
	keys     []newKey       // to insert
	touched  []dedupKey     // rows of duplicates, which have to be written too (hole 16)
	recalled []recalledRow  // stored messages to empty

	known map[dedupKey]*dedupRow // keys taken by this plan
	redo  bool                   // what is stored under an item's own mid is that item
}

// newKey is a dedup row to insert.
type newKey struct {
	dedupKey
	dedupRow
	recalled bool // the message is already recalled: the row is kept for ever
}

// recalledRow is a stored message to empty.
type recalledRow struct {
	event *impart.Event
	// was is the hash of what it said, for a dedup row that has to be made again.
	was contentHash
}

// planAppends answers items in order; facts[i] is of items[i]. It moves the next
// seqs of the conversations in facts.
func planAppends(epoch impart.Epoch, items []*store.Append, known []facts, redo bool) *plan {
	p := &plan{epoch: epoch, outcomes: make([]store.Appended, len(items)), known: map[dedupKey]*dedupRow{}, redo: redo}
	for i, a := range items {
		out, err := p.add(a, &known[i])
		out.Epoch, out.Err = epoch, err
		p.outcomes[i] = out
		if err != nil && fault.Planted(fault.BatchFailsTogether) {
			return p.failTogether(err)
		}
	}
	return p
}

// add takes the steps of [store.Log.Append] for one item. Every check comes
// before the first change: a refused item leaves no trace.
func (p *plan) add(a *store.Append, f *facts) (store.Appended, error) {
	if err := checkEpoch(a.Epoch, p.epoch); err != nil {
		return store.Appended{}, err
	}
	key := keyOf(a.Sender, a.CMID)
	if out, taken, err := p.firstAttempt(a, f, key); taken || err != nil {
		return out, err
	}
	if a.Refused != nil {
		return store.Appended{}, p.refuse(f, a.Refused)
	}
	if f.conv == nil || (a.Sender != impart.System && (f.member == nil || !f.member.periods.Open())) {
		return store.Appended{}, p.refuse(f, notMember(a.Conv))
	}
	if f.conv.damage != nil {
		return store.Appended{}, damagedError(aim{conv: a.Conv}, f.conv.damage)
	}
	if !p.hasPrev(a, f) && !fault.Planted(fault.PrevIgnored) {
		return store.Appended{}, p.refuse(f, impart.Errorf(impart.OutOfOrder,
			"prev %q is not stored in %q: send it first, then this again", a.Prev, a.Conv))
	}
	ev := impart.Event{
		Conv: a.Conv, Kind: a.Kind, MID: a.MID, Sender: a.Sender, Device: a.Device, CMID: a.CMID,
		Type: a.Type, Body: a.Body, Ext: a.Ext, At: a.At,
	}
	if a.Kind == impart.KindRecall {
		target, err := p.recallable(a, f)
		if err != nil {
			return store.Appended{}, p.refuse(f, err)
		}
		p.recall(target)
		ev.Target, ev.TargetMID = target.Seq, target.MID
	}
	ev.Seq = p.nextSeq(f.conv)
	p.events = append(p.events, ev)
	row := dedupRow{conv: a.Conv, seq: ev.Seq, mid: a.MID, at: a.At, hash: contentHash{sum: a.Hash}}
	p.keys = append(p.keys, newKey{key, row, false})
	p.known[key] = &row
	return store.Appended{Seq: ev.Seq, MID: ev.MID, At: ev.At}, nil
}

// firstAttempt answers an item whose key is taken, by this plan or by the store.
func (p *plan) firstAttempt(a *store.Append, f *facts, key dedupKey) (store.Appended, bool, error) {
	row := p.known[key]
	if row == nil {
		row = f.taken
	}
	if row != nil && !fault.Planted(fault.NoDedup) {
		if !row.hash.matches(a) {
			return store.Appended{}, false, cmidReused(a.CMID)
		}
		p.touched = append(p.touched, key)
		own := p.redo && row == f.taken && row.mid == a.MID
		return store.Appended{Seq: row.seq, MID: row.mid, At: row.at, Dup: !own}, true, nil
	}
	ev := f.logged
	if ev == nil {
		return store.Appended{}, false, nil
	}
	row = &dedupRow{conv: ev.Conv, seq: ev.Seq, mid: ev.MID, at: ev.At, hash: digest(ev)}
	if !row.hash.matches(a) {
		return store.Appended{}, false, cmidReused(a.CMID)
	}
	// The row comes back: a duplicate is answered only after a write.
	p.keys = append(p.keys, newKey{key, *row, false})
	p.known[key] = row
	return store.Appended{Seq: ev.Seq, MID: ev.MID, At: ev.At, Dup: true}, true, nil
}

func cmidReused(cmid impart.CMID) error {
	return impart.Errorf(impart.CMIDReused, "cmid %q was used for another message; make a new one", cmid)
}

// hasPrev reports whether what the item follows is stored in its conversation.
func (p *plan) hasPrev(a *store.Append, f *facts) bool {
	if a.Prev == "" {
		return true
	}
	row := p.known[keyOf(a.Sender, a.Prev)]
	if row == nil {
		row = f.prev
	}
	if row == nil {
		return f.prevLogged
	}
	return row.conv == a.Conv
}

// recallable finds the message that a recall may take back.
func (p *plan) recallable(a *store.Append, f *facts) (*impart.Event, error) {
	head := p.headOf(a, f)
	if a.Target < 0 || a.Target > head {
		return nil, cursorAhead(a.Target, head)
	}
	target := f.target
	for i := range p.events {
		if ev := &p.events[i]; ev.Conv == a.Conv && ev.Seq == a.Target {
			target = ev
		}
	}
	system := a.Sender == impart.System
	refuse := func(why string) error {
		return impart.Errorf(impart.RecallRefused, "the message at seq %d cannot be recalled: %s", a.Target, why)
	}
	switch {
	case target == nil || target.Kind != impart.KindMsg || (!system && !f.member.periods.Sees(target)):
		return nil, refuse("there is none that you can see")
	case target.Recalled:
		return nil, refuse("it is already recalled")
	case a.TargetMID != "" && a.TargetMID != target.MID:
		return nil, refuse("it has another mid")
	case target.At < a.NotBefore:
		return nil, refuse("it is too old")
	case !system && target.Sender != a.Sender && f.member.role != impart.RoleAdmin:
		return nil, refuse("it is not yours, and you are no admin of the conversation")
	}
	return target, nil
}

// headOf is the head of the sender of a recall, with what this plan adds.
func (p *plan) headOf(a *store.Append, f *facts) impart.Seq {
	if a.Sender == impart.System || f.member.periods.All() {
		return f.conv.last()
	}
	for i := len(p.events) - 1; i >= 0; i-- {
		if ev := &p.events[i]; ev.Conv == a.Conv && f.member.periods.Sees(ev) {
			return ev.Seq
		}
	}
	return f.head
}

// recall empties the target, which may be stored or only planned (D17).
func (p *plan) recall(target *impart.Event) {
	planned := false
	for i := range p.events {
		planned = planned || target == &p.events[i]
	}
	for i := range p.keys {
		if k := &p.keys[i]; k.conv == target.Conv && k.seq == target.Seq {
			k.recalled = true
		}
	}
	if !planned {
		p.recalled = append(p.recalled, recalledRow{event: target, was: digest(target)})
	}
	if !fault.Planted(fault.RecallKeepsBody) { // wire too serves no body of what is marked
		target.Recalled, target.Body, target.Ext = true, "", nil
	}
}

func (p *plan) nextSeq(c *convState) impart.Seq {
	p.move(c)
	seq := c.next
	c.next++
	return seq
}

// move notes that a conversation's row has to be written.
func (p *plan) move(c *convState) {
	if c.moved != p {
		c.moved = p
		p.convs = append(p.convs, c)
	}
}

func (p *plan) refuse(f *facts, err error) error {
	if f.conv != nil && fault.Planted(fault.SeqHole) {
		p.nextSeq(f.conv)
	}
	return err
}

// failTogether is what a store does that lacks D13.
func (p *plan) failTogether(err error) *plan {
	for i := range p.events {
		for _, c := range p.convs {
			if c.id == p.events[i].Conv {
				c.next--
			}
		}
	}
	out := &plan{epoch: p.epoch, outcomes: p.outcomes}
	for i := range out.outcomes {
		out.outcomes[i] = store.Appended{Epoch: p.epoch, Err: err}
	}
	return out
}
