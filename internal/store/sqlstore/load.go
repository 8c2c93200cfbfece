package sqlstore

import (
	"slices"

	"github.com/impart-im/impart"
)

// Sizes of the writer's caches, in entries; each holds up to twice as many.
const (
	cachedConvs   = 16 << 10
	cachedMembers = 64 << 10
	cachedUsers   = 16 << 10
	cachedFlows   = 32 << 10
)

type memberKey struct {
	conv impart.ConvID
	user impart.UserID
}

// deviceState is a device as the writer needs it.
type deviceState struct {
	install impart.InstallEpoch
	n       int64
	session int64 // of the last hello; 0: none yet
}

// flows are the cursors of one user in one conversation.
type flows struct {
	devices map[impart.DeviceID]*cursorRow
	read    *readRow
}

// caches are what the writer knows of the database; see [cache].
type caches struct {
	meta    *metaRow
	convs   cache[impart.ConvID, *convState]
	members cache[memberKey, *member]
	users   cache[impart.UserID, map[impart.DeviceID]*deviceState]
	flows   cache[memberKey, *flows]
}

func newCaches() caches {
	return caches{
		convs:   newCache[impart.ConvID, *convState](cachedConvs),
		members: newCache[memberKey, *member](cachedMembers),
		users:   newCache[impart.UserID, map[impart.DeviceID]*deviceState](cachedUsers),
		flows:   newCache[memberKey, *flows](cachedFlows),
	}
}

func (c *caches) clear() {
	c.meta = nil
	c.convs.clear()
	c.members.clear()
	c.users.clear()
	c.flows.clear()
}

// metaRow is the row of the table of that name.
type metaRow struct {
	epoch       impart.Epoch
	incarnation string
	cleaned     bool // dedup rows have been removed: events decide too
}

func readMeta(s session) (*metaRow, error) {
	m := &metaRow{}
	err := s.query("SELECT epoch, incarnation, cleaned FROM meta", func(r row) error {
		m.epoch, m.incarnation, m.cleaned = impart.Epoch(r.num(0)), r.str(1), r.num(2) != 0
		return nil
	})
	return m, err
}

// lockMeta is readMeta, and keeps other transactions from raising the epoch.
func lockMeta(tx *txn) (*metaRow, error) {
	m := &metaRow{}
	err := tx.query("SELECT epoch, incarnation, cleaned FROM meta"+tx.s.sql.forUpdate, func(r row) error {
		m.epoch, m.incarnation, m.cleaned = impart.Epoch(r.num(0)), r.str(1), r.num(2) != 0
		return nil
	})
	return m, err
}

const convColumns = "conv_id, kind, history, next_seq, floor, members_version"

func scanConv(r row) *convState {
	return &convState{
		id: impart.ConvID(r.str(0)), kind: impart.ConvKind(r.str(1)), history: impart.History(r.str(2)),
		next: r.seq(3), floor: r.seq(4), version: r.num(5),
	}
}

// readConv reads a conversation; nil if there is none.
func readConv(s session, conv impart.ConvID) (c *convState, err error) {
	err = s.query("SELECT "+convColumns+" FROM conversations WHERE conv_id = ?", func(r row) error {
		c = scanConv(r)
		return nil
	}, conv)
	return c, err
}

// lockConv reads a conversation and keeps other transactions from changing it, its
// log and its members; nil if there is none.
func (tx *txn) lockConv(conv impart.ConvID) (c *convState, err error) {
	err = tx.query("SELECT "+convColumns+" FROM conversations WHERE conv_id = ?"+tx.s.sql.forUpdate, func(r row) error {
		c = scanConv(r)
		return nil
	}, conv)
	if c != nil && err == nil {
		tx.convs.put(conv, c)
	}
	return c, err
}

// readMember reads a user's periods in a conversation; nil if there are none.
func readMember(s session, conv impart.ConvID, user impart.UserID) (m *member, err error) {
	err = s.query(selectMember, func(r row) error {
		if m == nil {
			m = &member{}
		}
		m.role = impart.Role(r.str(0))
		m.periods = append(m.periods, impart.Period{From: r.seq(1), To: r.seq(2)})
		return nil
	}, conv, user)
	return m, err
}

const selectMember = "SELECT role, from_seq, to_seq FROM members WHERE conv_id = ? AND user_id = ? ORDER BY from_seq"

// readHead finds the head of a user with these periods.
func readHead(s session, c *convState, ps impart.Periods) (impart.Seq, error) {
	if ps.All() {
		return c.last(), nil
	}
	w := newHeadWalk(ps, c.last())
	if n := c.newest; n != nil && (n.seq == 0 || n.seq < w.at) {
		return w.at, nil
	}
	for below, found := c.last(), false; !found; {
		n := 0
		err := s.query(selectRecallsBelow, func(r row) error {
			n++
			below = r.seq(0) - 1
			if found = w.see(recallMark{r.seq(0), r.seq(1)}); found {
				return errEnough
			}
			return nil
		}, c.id, below)
		if err != nil || n < recallsAtOnce {
			return w.at, err
		}
	}
	return w.at, nil
}

// prefetchHeads has readHead's look at the recalls of conversations done at once, for
// those who do not see everything.
func prefetchHeads[T any](s session, of []T, view func(T) (*convState, impart.Periods)) error {
	var asks []ask
	for _, v := range of {
		if c, ps := view(v); c != nil && len(ps) > 0 && !ps.All() {
			asks = append(asks, ask{selectRecallsBelow, []any{c.id, c.last()}})
		}
	}
	return s.prefetch(asks)
}

const (
	// recallsAtOnce is how many recalls are read at a time: nearly always the first one
	// is enough.
	recallsAtOnce      = 16
	selectRecallsBelow = "SELECT seq, target FROM events WHERE conv_id = ? AND kind = 'recall' AND seq <= ? ORDER BY seq DESC LIMIT 16"
)

func (tx *txn) metaRow() (*metaRow, error) {
	if tx.meta == nil {
		m, err := readMeta(tx)
		if err != nil {
			return nil, err
		}
		tx.meta = m
	}
	return tx.meta, nil
}

// conv is a conversation, nil if there is none. That there is none is not kept.
func (tx *txn) conv(id impart.ConvID) (*convState, error) {
	if c, ok := tx.convs.get(id); ok {
		return c, nil
	}
	c, err := readConv(tx, id)
	if c != nil && err == nil {
		tx.convs.put(id, c)
	}
	return c, err
}

// member is a user's membership, nil if there never was one; that is not kept.
func (tx *txn) member(conv impart.ConvID, user impart.UserID) (*member, error) {
	key := memberKey{conv, user}
	if m, ok := tx.members.get(key); ok {
		return m, nil
	}
	m, err := readMember(tx, conv, user)
	if m != nil && err == nil {
		tx.members.put(key, m)
	}
	return m, err
}

// devices are a user's devices.
func (tx *txn) devices(user impart.UserID) (map[impart.DeviceID]*deviceState, error) {
	if ds, ok := tx.users.get(user); ok {
		return ds, nil
	}
	ds := map[impart.DeviceID]*deviceState{}
	err := tx.query("SELECT device_id, install_epoch, n, session FROM devices WHERE user_id = ?", func(r row) error {
		ds[impart.DeviceID(r.str(0))] = &deviceState{impart.InstallEpoch(r.num(1)), r.num(2), r.num(3)}
		return nil
	}, user)
	if err == nil {
		tx.users.put(user, ds)
	}
	return ds, err
}

const cursorColumns = "c.install_epoch, c.epoch, c.start_seq, c.delivered_seq, c.n, c.updated_at"

// scanCursor reads a cursor row from column i on; nil if it is not there.
func scanCursor(r row, i int) *cursorRow {
	if r.null(i) {
		return nil
	}
	return &cursorRow{
		install: impart.InstallEpoch(r.num(i)), epoch: impart.Epoch(r.num(i + 1)), start: r.seq(i + 2),
		delivered: r.seq(i + 3), n: r.num(i + 4), updated: impart.Millis(r.num(i + 5)),
	}
}

// selectFlow looks a row up for each of the user's devices. An inner join could be
// turned around, into a walk over all cursors that the user has anywhere.
const selectFlow = "SELECT d.device_id, " + cursorColumns + " FROM devices d LEFT JOIN device_cursors c" +
	" ON c.user_id = d.user_id AND c.device_id = d.device_id AND c.conv_id = ? WHERE d.user_id = ?"

// flow are the cursors of a user in a conversation.
func (tx *txn) flow(conv impart.ConvID, user impart.UserID) (*flows, error) {
	key := memberKey{conv, user}
	if f, ok := tx.caches.flows.get(key); ok {
		return f, nil
	}
	f := &flows{devices: map[impart.DeviceID]*cursorRow{}}
	err := tx.query(selectFlow, func(r row) error {
		if cur := scanCursor(r, 1); cur != nil {
			f.devices[impart.DeviceID(r.str(0))] = cur
		}
		return nil
	}, conv, user)
	if err != nil {
		return nil, err
	}
	if f.read, err = readRead(tx, conv, user); err == nil {
		tx.caches.flows.put(key, f)
	}
	return f, err
}

const selectRead = "SELECT epoch, read_seq FROM read_cursors WHERE user_id = ? AND conv_id = ?"

// readRead reads the user's read cursor; nil if there is none.
func readRead(s session, conv impart.ConvID, user impart.UserID) (out *readRow, err error) {
	err = s.query(selectRead, func(r row) error {
		out = &readRow{impart.Epoch(r.num(0)), r.seq(1)}
		return nil
	}, user, conv)
	return out, err
}

const eventColumns = "seq, kind, mid, sender, device, cmid, type, body, ext, target, recalled, at, subject, actor"

// scanEvent reads the columns above.
func scanEvent(r row, conv impart.ConvID) impart.Event {
	ev := impart.Event{
		Conv: conv, Seq: r.seq(0), Kind: impart.Kind(r.str(1)), MID: impart.MID(r.str(2)), Sender: impart.UserID(r.str(3)),
		Device: impart.DeviceID(r.str(4)), CMID: impart.CMID(r.str(5)), Type: r.str(6), Body: r.str(7), Ext: r.bytes(8),
		Target: r.seq(9), Recalled: r.num(10) != 0, At: impart.Millis(r.num(11)),
	}
	switch ev.Kind {
	case impart.KindRecall:
		ev.TargetMID = impart.MID(r.str(12))
	case impart.KindJoin, impart.KindLeave:
		ev.User, ev.By = impart.UserID(r.str(12)), impart.UserID(r.str(13))
	}
	return ev
}

const selectEvent = "SELECT " + eventColumns + " FROM events WHERE conv_id = ? AND seq = ?"

// readEvent reads one event; nil if it is not there.
func readEvent(s session, conv impart.ConvID, seq impart.Seq) (ev *impart.Event, err error) {
	err = s.query(selectEvent, func(r row) error {
		found := scanEvent(r, conv)
		ev = &found
		return nil
	}, conv, seq)
	return ev, err
}

// readRecalls reads the recalls above floor, newest first.
func readRecalls(s session, c *convState) (out []recallMark, err error) {
	err = s.query("SELECT seq, target FROM events WHERE conv_id = ? AND kind = 'recall' ORDER BY seq DESC", func(r row) error {
		out = append(out, recallMark{r.seq(0), r.seq(1)})
		return nil
	}, c.id)
	return slices.Clip(out), err
}
