package client

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// Draft is a message to send.
type Draft struct {
	Conv impart.ConvID
	Body string
	// Type is the application's content type, 1..64 bytes; "" stands for text.
	Type string
	// Ext is a JSON object of up to 4 KiB that is stored and returned as it is; nil: none.
	Ext []byte
	// CMID names the message; "": a new one is made. An application that gives its own
	// may call Send again with the same draft after a crash: it is taken once. It has to
	// be unique among the messages of all of the user's devices: counting is not enough.
	CMID impart.CMID
}

// maxFrame is the largest send that a server looks at, in bytes. A larger one
// would end the connection again and again.
const maxFrame = 1 << 20

// Send puts a message into the outbox and returns its cmid once that is durable,
// without waiting for a network. From then on it is sent until it has a final
// answer, and messages to one conversation are stored in the order of these calls.
// [Handler.Settled] tells of the answer. A draft whose cmid was taken before
// changes nothing.
//
// Errors: BAD_FRAME or TOO_LARGE for what no server would take, ErrOutboxFull, or
// that of the local store; then nothing was taken.
func (c *Client) Send(ctx context.Context, d Draft) (impart.CMID, error) {
	if d.CMID == "" {
		d.CMID = newCMID()
	}
	if d.Type == "" {
		d.Type = impart.DefaultType
	}
	frame := wire.AppendFrame(nil, &wire.Send{RID: "1", Conv: d.Conv, CMID: d.CMID, Body: d.Body, Type: d.Type, Ext: d.Ext})
	for _, err := range []error{impart.CheckID("Conv", string(d.Conv), impart.MaxID), impart.CheckID("CMID", string(d.CMID), impart.MaxCMID)} {
		if err != nil {
			return "", err
		}
	}
	if !utf8.ValidString(d.Body) || !utf8.ValidString(d.Type) || !utf8.Valid(d.Ext) {
		return "", impart.Errorf(impart.BadFrame, "the message is not valid UTF-8")
	}
	if len(frame) > maxFrame {
		return "", impart.Errorf(impart.TooLarge, "the message is %d bytes as a frame, at most %d are possible", len(frame), maxFrame)
	}
	read, _, err := wire.Decode(frame)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(read.(*wire.Send).Ext, d.Ext) {
		return "", impart.Errorf(impart.BadFrame, "ext is not one JSON object, without spaces around it")
	}
	return d.CMID, c.enqueue(ctx, &Item{
		CMID: d.CMID, Conv: d.Conv, Kind: impart.KindMsg, Type: d.Type, Body: d.Body, Ext: d.Ext, At: now(),
	})
}

// enqueue puts an item into the outbox, unless it has been there before.
func (c *Client) enqueue(ctx context.Context, it *Item) error {
	var wrong *wrongUser
	if st := c.Status(); st.State == Stopped && errors.As(st.Err, &wrong) {
		return wrong // whoever writes here is not whom it would be sent for
	}
	return c.change(ctx, it.Conv, func(tx *sql.Tx) error {
		var known bool
		err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM outbox WHERE cmid = ?1)
			OR EXISTS (SELECT 1 FROM events WHERE cmid = ?1 AND place > 0)
			OR EXISTS (SELECT 1 FROM cancelled WHERE cmid = ?1)`, it.CMID).Scan(&known)
		if err != nil || known {
			return err
		}
		full, err := isFull(tx, c.cfg.MaxOutbox)
		if err == nil && full {
			err = ErrOutboxFull
		}
		if err != nil {
			return err
		}
		return enqueue(tx, it, nil)
	})
}

// change writes to the outbox and wakes the connection for a conversation.
func (c *Client) change(ctx context.Context, id impart.ConvID, do func(tx *sql.Tx) error) error {
	err := c.use(func() error { return c.store.write(ctx, do) })
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.announce()
	c.mu.Unlock()
	c.wakeLane(id)
	return nil
}

// wakeLane lets the connection look at the outbox of a conversation, and at the
// read cursors.
func (c *Client) wakeLane(id impart.ConvID) {
	c.mu.Lock()
	if id != "" {
		c.fresh[id] = true
	}
	c.mu.Unlock()
	poke(c.wakeLink)
}

// Cancelled says what [Client.Cancel] could do.
type Cancelled string

// What became of a cancelled message.
const (
	// NotSent: it has left the outbox. Should an attempt whose answer was lost have
	// stored it all the same, it is recalled as soon as that is seen.
	NotSent Cancelled = "not-sent"
	// Recalling: it was stored already; a recall is in the outbox now.
	Recalling Cancelled = "recalling"
)

// Cancel takes a message back, wherever it is by now. ErrUnknownMessage when it
// was not sent with this store.
func (c *Client) Cancel(ctx context.Context, cmid impart.CMID) (Cancelled, error) {
	var done Cancelled
	var id impart.ConvID
	err := c.change(ctx, "", func(tx *sql.Tx) (err error) {
		done, err = cancel(tx, cmid)
		if err == nil {
			err = tx.QueryRow("SELECT coalesce((SELECT conv FROM events WHERE place > 0 AND cmid = ?), '')", cmid).Scan(&id)
		}
		return err
	})
	if err == nil && id != "" {
		c.wakeLane(id)
	}
	return done, err
}

// Recall takes a stored message back, for everybody. It is an outbox item like a
// message, and its cmid is returned: it survives crashes, and RECALL_REFUSED is a
// final answer to it. Should a new epoch undo one's own message before the recall is
// answered, then neither is sent again, and there is no answer. NOT_FOUND when this store does not hold the message.
func (c *Client) Recall(ctx context.Context, id impart.ConvID, seq impart.Seq) (impart.CMID, error) {
	var it *Item
	err := c.change(ctx, id, func(tx *sql.Tx) error {
		ev := impart.Event{Conv: id, Seq: seq}
		err := tx.QueryRow("SELECT mid FROM events WHERE conv = ? AND seq = ? AND kind = ?", id, seq, impart.KindMsg).Scan(&ev.MID)
		if errors.Is(err, sql.ErrNoRows) {
			return impart.Errorf(impart.NotFound, "there is no message %d in %s in this store", seq, id)
		}
		if err != nil {
			return err
		}
		it = recallOf(&ev, now())
		return enqueue(tx, it, nil)
	})
	if err != nil {
		return "", err
	}
	return it.CMID, nil
}

// Outbox lists what has no final answer yet, in the order of sending.
func (c *Client) Outbox(ctx context.Context) ([]Item, error) {
	return c.outbox(ctx, "code = '' ORDER BY pos")
}

// Refused lists what got a final refusal, until it is dismissed.
func (c *Client) Refused(ctx context.Context) ([]Item, error) {
	return c.outbox(ctx, "code != '' ORDER BY pos")
}

func (c *Client) outbox(ctx context.Context, where string) ([]Item, error) {
	var list []Item
	err := c.read(ctx, func(q querier) (err error) {
		list, err = items(q, where)
		return err
	})
	return list, err
}

// use keeps the store open while do is at work.
func (c *Client) use(do func() error) error {
	c.using.RLock()
	defer c.using.RUnlock()
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return do()
}

// read is for what the application asks of the store.
func (c *Client) read(ctx context.Context, do func(q querier) error) error {
	err := c.use(func() error { return c.store.read(ctx, do) })
	if err != nil && !errors.Is(err, ErrClosed) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = fmt.Errorf("client: the local store: %w", err)
	}
	return err
}

// Dismiss forgets a refused item, once the user has seen it. ErrUnknownMessage
// when there is none.
func (c *Client) Dismiss(ctx context.Context, cmid impart.CMID) error {
	return c.change(ctx, "", func(tx *sql.Tx) error {
		gone, err := changed(tx, "DELETE FROM outbox WHERE cmid = ? AND code != ''", cmid)
		if err == nil && !gone {
			err = ErrUnknownMessage
		}
		return err
	})
}

// Read says that the user has read a conversation up to seq, on all of the user's
// devices. It is durable here and told to the server when there is a connection.
// CURSOR_AHEAD when the store does not hold everything up to seq.
func (c *Client) Read(ctx context.Context, id impart.ConvID, seq impart.Seq) error {
	return c.change(ctx, "", func(tx *sql.Tx) error {
		var stored impart.Seq
		err := tx.QueryRow("SELECT coalesce((SELECT stored FROM conversations WHERE conv = ?), 0)", id).Scan(&stored)
		if err == nil && (seq > stored || seq < 0) {
			err = impart.Errorf(impart.CursorAhead, "seq=%d stored=%d", seq, stored)
		}
		if err != nil {
			return err
		}
		return run(tx, "UPDATE conversations SET read = max(read, ?) WHERE conv = ?", seq, id)
	})
}

// Typing tells the other members that the user is typing, now or never.
func (c *Client) Typing(id impart.ConvID) {
	select {
	case c.typing <- id:
	default:
	}
}
