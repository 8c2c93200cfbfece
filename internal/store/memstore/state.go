package memstore

import (
	"slices"

	"github.com/impart-im/impart"
)

// state is everything that is committed. Only [disk].mu guards it.
type state struct {
	epoch       impart.Epoch
	incarnation string // what was accepted last; [disk].name unless that is to be judged
	judged      int64  // rises with each acceptance
	nodes       map[string]*node
	verdicts    map[string]*verdict // by change and node
	users       map[impart.UserID]*impart.UserInfo
	devices     map[deviceKey]*device
	convs       map[impart.ConvID]*conversation
	dedup       map[messageKey]*dedup
	cursors     map[cursorKey]*cursor
	reads       map[readKey]*read
	replicated  bool // commits wait for a standby
	// cleaned says that dedup rows have been removed, so that events may have to decide.
	cleaned bool
	// hidden are events that only a broken store has: in the log and not readable.
	hidden map[*impart.Event]bool
}

func newState(incarnation string) state {
	return state{
		epoch: 1, incarnation: incarnation,
		users:   map[impart.UserID]*impart.UserInfo{},
		devices: map[deviceKey]*device{},
		convs:   map[impart.ConvID]*conversation{},
		dedup:   map[messageKey]*dedup{},
		cursors: map[cursorKey]*cursor{},
		reads:   map[readKey]*read{},
		nodes:   map[string]*node{}, verdicts: map[string]*verdict{},
		hidden: map[*impart.Event]bool{},
	}
}

type deviceKey struct {
	user   impart.UserID
	device impart.DeviceID
}

type device struct {
	install string
	epoch   impart.InstallEpoch
	n       int64
	session int64
	seen    impart.Millis
}

type messageKey struct {
	user impart.UserID
	cmid impart.CMID
}

// dedup is the row of one message's key.
type dedup struct {
	conv     impart.ConvID
	seq      impart.Seq
	mid      impart.MID
	at       impart.Millis
	hash     [16]byte
	digest   string // stands for hash in a row that was made from its event; or ""
	recalled bool   // kept for ever (D17)
	seen     int64  // how often the row was written
}

type cursorKey struct {
	deviceKey
	conv impart.ConvID
}

type cursor struct {
	install   impart.InstallEpoch
	epoch     impart.Epoch
	start     impart.Seq
	delivered impart.Seq
	written   impart.Millis
	acked     impart.Millis // 0: written by a hello alone
}

type readKey struct {
	user impart.UserID
	conv impart.ConvID
}

type read struct {
	epoch impart.Epoch
	seq   impart.Seq
}

type conversation struct {
	id      impart.ConvID
	kind    impart.ConvKind
	history impart.History
	// Invariant: log ascends by seq from floor+1 to head without a hole.
	log     []*impart.Event
	head    impart.Seq
	floor   impart.Seq
	version int64
	written impart.Millis // when the last event was stored, by the store's clock
	members map[impart.UserID]*member
	reread  bool // for a broken store alone: a page has been read since the last event
}

type member struct {
	role    impart.Role
	periods impart.Periods
}

// at is the stored event at seq, or nil.
func (c *conversation) at(seq impart.Seq) *impart.Event {
	i, found := slices.BinarySearchFunc(c.log, seq, func(ev *impart.Event, seq impart.Seq) int { return int(ev.Seq - seq) })
	if !found {
		return nil
	}
	return c.log[i]
}

// periods are the memberships of user; none if there is no such conversation.
func (st *state) periods(conv impart.ConvID, user impart.UserID) impart.Periods {
	c := st.convs[conv]
	if c == nil || c.members[user] == nil {
		return nil
	}
	return c.members[user].periods
}

// seen is the highest seq of an event that periods let one see. What retention
// removed counts by its seq alone.
func (c *conversation) seen(ps impart.Periods) impart.Seq {
	for _, ev := range slices.Backward(c.log) {
		if ps.Sees(ev) {
			return ev.Seq
		}
	}
	for i := len(ps) - 1; i >= 0; i-- {
		if ps[i].From <= c.floor {
			if ps[i].To == 0 {
				return c.floor
			}
			return min(ps[i].To, c.floor)
		}
	}
	return 0
}

// copyOf is an event that belongs to the caller.
func copyOf(ev *impart.Event) impart.Event {
	out := *ev
	out.Ext = slices.Clone(ev.Ext)
	return out
}

// sortedKeys are the keys of m, ascending byte for byte.
func sortedKeys[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
