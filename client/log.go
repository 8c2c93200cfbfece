package client

import (
	"database/sql"
	"errors"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
)

// conv is what a session knows of one conversation. The first group is the row of
// the store; the rest lives as long as the connection.
type conv struct {
	id     impart.ConvID
	start  impart.Seq
	stored impart.Seq
	floor  impart.Seq
	read   impart.Seq
	told   impart.Seq // the read cursor that the server knows
	doubt  bool
	known  bool // there is a row

	above   bool       // events are stored above a gap
	changed bool       // stored or floor moved in this transaction
	want    impart.Seq // the highest seq that is known to be there for us
	asked   impart.Seq // what an ack has told the server
	syncing bool       // a sync is under way
	sync    bool       // a page left a gap that only a sync can explain
	reading bool       // a read is under way
	probe   *probe     // while in doubt
	resume  time.Time  // no sync or probe before
	pause   time.Duration
}

// behind reports whether the server is known to have more.
func (c *conv) behind() bool { return c.stored < c.want || c.sync }

const eventColumns = "conv, seq, mid, kind, sender, cmid, type, body, ext, at, target, target_mid, user, by, recalled"

func scanEvent(rows *sql.Rows) (impart.Event, error) {
	var ev impart.Event
	err := rows.Scan(&ev.Conv, &ev.Seq, &ev.MID, &ev.Kind, &ev.Sender, &ev.CMID, &ev.Type, &ev.Body, &ev.Ext, &ev.At,
		&ev.Target, &ev.TargetMID, &ev.User, &ev.By, &ev.Recalled)
	return ev, err
}

// loadConvs reads all conversations of the store, and which of them have events
// above a gap.
func loadConvs(q querier) (map[impart.ConvID]*conv, error) {
	convs := map[impart.ConvID]*conv{}
	err := each(q, func(rows *sql.Rows) error {
		c := &conv{known: true}
		err := rows.Scan(&c.id, &c.start, &c.stored, &c.floor, &c.read, &c.told, &c.doubt)
		c.asked = c.stored // until the server says otherwise
		convs[c.id] = c
		return err
	}, "SELECT conv, start, stored, floor, read, read_told, doubt FROM conversations")
	if err != nil {
		return nil, err
	}
	// Events of a conversation without a row are above a gap too.
	return convs, each(q, func(rows *sql.Rows) error {
		var id impart.ConvID
		var top impart.Seq
		if err := rows.Scan(&id, &top); err != nil {
			return err
		}
		if convs[id] == nil {
			convs[id] = &conv{id: id}
		}
		if c := convs[id]; top > c.stored {
			c.above, c.want = true, top
		}
		return nil
	}, topsQuery)
}

// topsQuery finds the highest event of each conversation by the index alone, from
// one conversation to the next: a new connection must not read the whole store.
const topsQuery = `WITH RECURSIVE held(conv) AS (SELECT min(conv) FROM events
		UNION ALL SELECT (SELECT min(conv) FROM events WHERE conv > held.conv) FROM held WHERE held.conv IS NOT NULL)
	SELECT conv, (SELECT max(seq) FROM events WHERE events.conv = held.conv) FROM held WHERE held.conv IS NOT NULL`

// begin gives an unknown conversation its row: its log starts after start.
func (c *conv) begin(tx *sql.Tx, start impart.Seq) error {
	if c.known {
		return nil
	}
	c.known, c.start, c.stored = true, start, start
	return run(tx, "INSERT INTO conversations (conv, start, stored, handled) VALUES (?, ?, ?, ?)", c.id, start, start, start)
}

// put stores one event, settles the outbox item that it answers, and moves the
// cursor over what is now unbroken. An event that is there already changes
// nothing, but for a recall that it tells of.
func (c *conv) put(tx *sql.Tx, me self, ev *impart.Event) ([]Settled, error) {
	c.want = max(c.want, ev.Seq)
	held, err := c.held(tx, ev)
	if err != nil {
		return nil, err
	}
	var settled []Settled
	switch {
	case !held && (!c.known || ev.Seq > c.start):
		settled, err = c.insert(tx, me, ev)
		if c.known && !c.above && ev.Seq == c.stored+1 {
			c.stored, c.changed = ev.Seq, true // nothing waits behind it
		}
		c.above = c.above || ev.Seq > c.stored
	case ev.Sender == me.User && ev.CMID != "":
		// It is known already, or older than this store: the outbox may wait for it all the same.
		var place int64
		if settled, place, err = settle(tx, ev, false); place > 0 && err == nil {
			err = run(tx, "UPDATE events SET place = ? WHERE conv = ? AND seq = ? AND mid = ?", place, ev.Conv, ev.Seq, ev.MID)
		}
	}
	if err != nil {
		return nil, err
	}
	if ev.Kind == impart.KindRecall && !fault.Planted(fault.ClientKeepsBody) {
		err = run(tx, "UPDATE events SET body = '', ext = NULL, recalled = 1 WHERE conv = ? AND seq = ?", ev.Conv, ev.Target)
	}
	if err != nil {
		return nil, err
	}
	return settled, c.close(tx)
}

// errOtherEvent says that another event is stored at this seq: history was
// rewritten, and no new epoch has told of it.
var errOtherEvent = errors.New("another event is stored at this seq")

// held reports whether the event is stored, and notes on it that it was recalled.
func (c *conv) held(tx *sql.Tx, ev *impart.Event) (bool, error) {
	var recalled bool
	var mid impart.MID
	err := tx.QueryRow("SELECT recalled, mid FROM events WHERE conv = ? AND seq = ?", ev.Conv, ev.Seq).Scan(&recalled, &mid)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err == nil && mid != ev.MID:
		return true, errOtherEvent
	}
	if err == nil && ev.Recalled && !recalled {
		err = run(tx, "UPDATE events SET body = '', ext = NULL, recalled = 1 WHERE conv = ? AND seq = ?", ev.Conv, ev.Seq)
	}
	return true, err
}

// recallQuery names its index: left to itself, SQLite reads the whole conversation
// for each event that is stored.
const recallQuery = `SELECT EXISTS (SELECT 1 FROM events INDEXED BY events_target
	WHERE conv = ? AND target = ? AND target > 0 AND kind = ?)`

// insert writes a new event. Its text is left out when the log has recalled it:
// a late answer to a resend does not know that.
func (c *conv) insert(tx *sql.Tx, me self, ev *impart.Event) (settled []Settled, err error) {
	place := int64(0)
	if ev.Sender == me.User && ev.CMID != "" {
		if settled, place, err = settle(tx, ev, true); err != nil {
			return nil, err
		}
	}
	recalled := ev.Recalled
	if ev.Kind == impart.KindMsg && !recalled && !fault.Planted(fault.ClientLateBody) {
		err = tx.QueryRow(recallQuery,
			ev.Conv, ev.Seq, impart.KindRecall).Scan(&recalled)
		if err != nil {
			return nil, err
		}
	}
	body, ext := ev.Body, ev.Ext
	if recalled {
		body, ext = "", nil
	}
	return settled, run(tx, "INSERT INTO events ("+eventColumns+", place) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		ev.Conv, ev.Seq, ev.MID, ev.Kind, ev.Sender, ev.CMID, ev.Type, body, ext, ev.At,
		ev.Target, ev.TargetMID, ev.User, ev.By, recalled, place)
}

// close moves the cursor over the events that follow it without a gap.
func (c *conv) close(tx *sql.Tx) error {
	for c.known && c.above {
		var next sql.NullInt64
		err := tx.QueryRow("SELECT min(seq) FROM events WHERE conv = ? AND seq > ?", c.id, c.stored).Scan(&next)
		if err != nil {
			return err
		}
		if !next.Valid {
			c.above = false
		}
		if !next.Valid || impart.Seq(next.Int64) != c.stored+1 && !fault.Planted(fault.ClientCursorOverGap) {
			return nil
		}
		c.stored++
		c.changed = true
	}
	return nil
}

// pass moves the cursor to through, which a page has said to be safe.
func (c *conv) pass(tx *sql.Tx, through, floor impart.Seq) error {
	if through > c.stored {
		c.stored, c.changed = through, true
	}
	if floor > c.floor {
		c.floor, c.changed = floor, true
	}
	return c.close(tx)
}

// readTo notes how far the server says that the user has read.
func (c *conv) readTo(tx *sql.Tx, read impart.Seq) error {
	if read <= c.told {
		return nil
	}
	c.told, c.read = read, max(c.read, read)
	return run(tx, "UPDATE conversations SET read = max(read, ?), read_told = max(read_told, ?) WHERE conv = ?", read, read, c.id)
}

// keep writes where the cursor stands.
func (c *conv) keep(tx *sql.Tx) error {
	if !c.changed {
		return nil
	}
	c.changed = false
	return run(tx, "UPDATE conversations SET stored = ?, floor = ? WHERE conv = ?", c.stored, c.floor, c.id)
}

// midAt is the mid of the event at seq, "" if none is held there.
func midAt(q querier, id impart.ConvID, seq impart.Seq) (impart.MID, error) {
	var mid impart.MID
	err := q.QueryRow("SELECT mid FROM events WHERE conv = ? AND seq = ?", id, seq).Scan(&mid)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return mid, err
}
