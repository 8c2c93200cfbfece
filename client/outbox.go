package client

import (
	"database/sql"
	"errors"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
)

// Item is a message, or a recall of one, that has no final answer yet, or was
// refused for good.
type Item struct {
	CMID impart.CMID
	Conv impart.ConvID
	Kind impart.Kind // KindMsg or KindRecall
	Type string
	Body string
	Ext  []byte
	// Target and TargetMID name the message that a recall takes back.
	Target    impart.Seq
	TargetMID impart.MID
	At        impart.Millis // when it was given to the client, by its clock
	// Err is the final refusal; nil while the item waits.
	Err *impart.Error

	pos int64
}

const itemColumns = "pos, cmid, conv, kind, type, body, ext, target, target_mid, at, code, message"

func items(q querier, where string, args ...any) ([]Item, error) {
	var list []Item
	err := each(q, func(rows *sql.Rows) error {
		var it Item
		var code impart.Code
		var message string
		err := rows.Scan(&it.pos, &it.CMID, &it.Conv, &it.Kind, &it.Type, &it.Body, &it.Ext, &it.Target, &it.TargetMID, &it.At, &code, &message)
		if code != "" {
			it.Err = &impart.Error{Code: code, Message: message}
		}
		list = append(list, it)
		return err
	}, "SELECT "+itemColumns+" FROM outbox WHERE "+where, args...)
	return list, err
}

// enqueue puts an item at a place, or behind all others if pos is nil.
func enqueue(tx *sql.Tx, it *Item, pos any) error {
	return run(tx, "INSERT INTO outbox ("+itemColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', '')",
		pos, it.CMID, it.Conv, it.Kind, it.Type, it.Body, it.Ext, it.Target, it.TargetMID, it.At)
}

// isFull reports whether most items wait. They are counted only when there may be
// so many, by the places between the first and the last.
func isFull(tx *sql.Tx, most int) (bool, error) {
	var span, waiting int
	err := tx.QueryRow("SELECT coalesce((SELECT max(pos) FROM outbox) - (SELECT min(pos) FROM outbox) + 1, 0)").Scan(&span)
	if err != nil || span < most {
		return false, err
	}
	err = tx.QueryRow("SELECT count(*) FROM outbox WHERE code = ''").Scan(&waiting)
	return waiting >= most, err
}

// settle takes the outbox item out that ev answers: it was stored, however the
// server came to say so. An event with the cmid and another content is not it, but
// of another device that gave the same cmid: the server will refuse the item. A
// message that was cancelled meanwhile is recalled. place is the item's pos, 0 if it
// was not here; fresh says that the event is new to this store.
func settle(tx *sql.Tx, ev *impart.Event, fresh bool) (settled []Settled, place int64, err error) {
	err = tx.QueryRow(`DELETE FROM outbox WHERE cmid = ?1 AND conv = ?2 AND kind = ?3 AND target = ?4
		AND (?5 OR type = ?6 AND body = ?7 AND coalesce(ext, x'') = coalesce(?8, x'')) RETURNING pos`,
		ev.CMID, ev.Conv, ev.Kind, ev.Target, ev.Recalled || ev.Kind == impart.KindRecall, ev.Type, ev.Body, ev.Ext).Scan(&place)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, 0, err
	}
	if place > 0 {
		settled = []Settled{{CMID: ev.CMID, Conv: ev.Conv, Seq: ev.Seq, MID: ev.MID, At: ev.At}}
	}
	if ev.Kind != impart.KindMsg || !fresh {
		return settled, place, nil
	}
	cancelled, err := changed(tx, "DELETE FROM cancelled WHERE cmid = ?", ev.CMID)
	if err != nil || !cancelled || fault.Planted(fault.ClientForgetsCancelled) {
		return settled, place, err
	}
	return settled, place, recall(tx, ev)
}

// recallOf is the outbox item that takes a stored message back.
func recallOf(ev *impart.Event, at impart.Millis) *Item {
	return &Item{CMID: newCMID(), Conv: ev.Conv, Kind: impart.KindRecall, Target: ev.Seq, TargetMID: ev.MID, At: at}
}

// refuse keeps an item as refused for good.
func refuse(tx *sql.Tx, cmid impart.CMID, why *impart.Error) (bool, error) {
	which := "cmid = ?"
	if fault.Planted(fault.ClientRefusesAll) {
		which = "cmid >= '' OR cmid = ?"
	}
	return changed(tx, "UPDATE outbox SET code = ?, message = ? WHERE code = '' AND ("+which+")", why.Code, why.Message, cmid)
}

// rewind takes the events above agreed out of a conversation, whose history is
// another from there on. Own messages among them were undone and go back into the
// outbox, each at the place that it had there: some that were given before them may
// still wait, because the answers to those were lost.
func (c *conv) rewind(tx *sql.Tx, agreed impart.Seq) error {
	firm, err := c.firm(tx, agreed)
	if err != nil {
		return err
	}
	if err := c.forgetRecalls(tx, agreed); err != nil {
		return err
	}
	undone, err := c.undone(tx, agreed)
	if err != nil {
		return err
	}
	if !fault.Planted(fault.ClientForgetsUndone) {
		if err := putBack(tx, undone); err != nil {
			return err
		}
	}
	if err := run(tx, "DELETE FROM events WHERE conv = ? AND seq > ?", c.id, firm); err != nil {
		return err
	}
	c.doubt, c.above, c.probe, c.changed, c.sync = false, false, nil, false, false
	c.want, c.told = 0, 0
	c.stored, c.start, c.read, c.floor = min(c.stored, firm), min(c.start, firm), min(c.read, firm), min(c.floor, firm)
	if !c.known {
		return nil
	}
	// rewinds rises whenever a hand-over under way could be about what is gone.
	return run(tx, `UPDATE conversations SET doubt = 0, start = ?1, stored = ?2, floor = ?3, read = ?4, read_told = 0,
		rewinds = rewinds + (stored > ?5), handled = min(handled, ?5),
		rewound_to = CASE WHEN stored > ?5 THEN min(coalesce(rewound_to, ?5), ?5) ELSE rewound_to END WHERE conv = ?6`,
		c.start, c.stored, c.floor, c.read, firm, c.id)
}

// firm is up to where events can stay: below the target of a recall that was
// undone, for the text that it took is no longer here and has to be fetched anew.
func (c *conv) firm(tx *sql.Tx, agreed impart.Seq) (impart.Seq, error) {
	var lowest sql.NullInt64
	err := tx.QueryRow("SELECT min(target) FROM events WHERE conv = ? AND seq > ? AND target > 0", c.id, agreed).Scan(&lowest)
	if err != nil || !lowest.Valid {
		return agreed, err
	}
	return max(min(agreed, impart.Seq(lowest.Int64)-1), 0), nil
}

// forgetRecalls takes recalls out of the outbox whose messages were undone before
// they could be recalled. Those count as cancelled: they are not sent again from
// here, and recalled should they appear in the log once more.
func (c *conv) forgetRecalls(tx *sql.Tx, agreed impart.Seq) error {
	const undone = `FROM events WHERE conv = ?1 AND seq > ?2 AND kind = 'msg' AND sender = (SELECT user FROM self)
		AND seq IN (SELECT target FROM outbox WHERE conv = ?1 AND kind = 'recall' AND code = '')`
	if err := run(tx, "INSERT OR IGNORE INTO cancelled SELECT cmid "+undone, c.id, agreed); err != nil {
		return err
	}
	return run(tx, "DELETE FROM outbox WHERE conv = ?1 AND kind = 'recall' AND code = '' AND target IN (SELECT seq "+undone+")", c.id, agreed)
}

// undone lists what has to be sent again: own messages above agreed that were
// not recalled or cancelled, and own recalls above it of what still stands.
func (c *conv) undone(tx *sql.Tx, agreed impart.Seq) ([]Item, error) {
	var list []Item
	err := each(tx, func(rows *sql.Rows) error {
		var it Item
		var recalled bool
		err := rows.Scan(&it.CMID, &it.Conv, &it.Kind, &it.Type, &it.Body, &it.Ext, &it.Target, &it.TargetMID, &it.At, &recalled, &it.pos)
		if it.Kind == impart.KindMsg && !recalled || it.Kind == impart.KindRecall && it.Target <= agreed {
			list = append(list, it)
		}
		return err
	}, `SELECT cmid, conv, kind, type, body, ext, target, target_mid, at, recalled, place FROM events
		WHERE conv = ? AND seq > ? AND place > 0 AND cmid NOT IN (SELECT cmid FROM cancelled)`, c.id, agreed)
	return list, err
}

// putBack puts items back at their places. One that is in the outbox already stays
// where it is.
func putBack(tx *sql.Tx, list []Item) error {
	for i := range list {
		var there bool
		err := tx.QueryRow("SELECT EXISTS (SELECT 1 FROM outbox WHERE cmid = ?)", list[i].CMID).Scan(&there)
		if err == nil && !there {
			err = enqueue(tx, &list[i], list[i].pos)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cancel takes a message out of the outbox, unless it is not there.
func cancel(tx *sql.Tx, cmid impart.CMID) (Cancelled, error) {
	gone, err := changed(tx, "DELETE FROM outbox WHERE cmid = ? AND kind = ?", cmid, impart.KindMsg)
	if err != nil {
		return "", err
	}
	mine := "place > 0"
	if gone { // a draft given again after a reinstall may be in the log since long
		mine = "sender = (SELECT user FROM self)"
	}
	var ev impart.Event
	err = tx.QueryRow("SELECT conv, seq, mid, recalled FROM events WHERE "+mine+" AND cmid = ? AND kind = ?", cmid, impart.KindMsg).
		Scan(&ev.Conv, &ev.Seq, &ev.MID, &ev.Recalled)
	if errors.Is(err, sql.ErrNoRows) {
		if !gone {
			return "", ErrUnknownMessage
		}
		// It may have been sent by an attempt whose answer was lost.
		return NotSent, run(tx, "INSERT OR IGNORE INTO cancelled VALUES (?)", cmid)
	}
	if err != nil {
		return "", err
	}
	return Recalling, recall(tx, &ev)
}

// recall puts a recall of ev into the outbox, unless it is recalled or about to be.
func recall(tx *sql.Tx, ev *impart.Event) error {
	var under bool
	err := tx.QueryRow("SELECT EXISTS (SELECT 1 FROM outbox WHERE conv = ? AND target = ? AND code = '')", ev.Conv, ev.Seq).Scan(&under)
	if err != nil || under || ev.Recalled {
		return err
	}
	return enqueue(tx, recallOf(ev, now()), nil)
}
