package client

import (
	"context"
	"database/sql"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// Conversation is what this store holds of one.
type Conversation struct {
	Conv impart.ConvID
	// Start: the store's log begins after it. Older events are for [Client.History].
	Start impart.Seq
	// Stored: every event that the user may see, above Start and up to here, is stored.
	Stored impart.Seq
	// Handled: the handler has taken every event up to here.
	Handled impart.Seq
	Floor   impart.Seq // the server's retention has removed everything up to here
	Read    impart.Seq // the user has read up to here, on any device that the server knows of
	// ReadTold: the server has confirmed that the user has read up to here.
	ReadTold impart.Seq
}

// Conversations lists what this store holds, by id.
func (c *Client) Conversations(ctx context.Context) ([]Conversation, error) {
	var list []Conversation
	err := c.read(ctx, func(q querier) error {
		return each(q, func(rows *sql.Rows) error {
			var one Conversation
			err := rows.Scan(&one.Conv, &one.Start, &one.Stored, &one.Handled, &one.Floor, &one.Read, &one.ReadTold)
			list = append(list, one)
			return err
		}, "SELECT conv, start, stored, handled, floor, read, read_told FROM conversations ORDER BY conv")
	})
	return list, err
}

// Events reads the stored log of a conversation: events with seq > after, up to
// the first gap, ascending, at most limit. Seqs may be missing where the user may
// not see what is there.
func (c *Client) Events(ctx context.Context, id impart.ConvID, after impart.Seq, limit int) ([]impart.Event, error) {
	var events []impart.Event
	err := c.read(ctx, func(q querier) error {
		var stored impart.Seq
		err := q.QueryRow("SELECT coalesce((SELECT stored FROM conversations WHERE conv = ?), 0)", id).Scan(&stored)
		if err != nil {
			return err
		}
		events, err = eventsAfter(q, id, after, stored, limit)
		return err
	})
	return events, err
}

// History reads events with seq < before from the server, descending, at most
// limit (1..1,000), for what is older than the store. It needs a connection and
// waits for one. Nothing of it is stored.
func (c *Client) History(ctx context.Context, id impart.ConvID, before impart.Seq, limit int) (impart.Page, error) {
	reply, err := ask[*wire.Synced](ctx, c, &wire.Sync{Conv: id, Before: &before, Limit: &limit})
	if err != nil {
		return impart.Page{}, err
	}
	return reply.Page, nil
}

// Who reports who has an event: of each user who may see it, on how many devices
// it is stored and whether it was read, for users above after. It needs a
// connection and waits for one.
func (c *Client) Who(ctx context.Context, id impart.ConvID, seq impart.Seq, after impart.UserID) (impart.Report, error) {
	reply, err := ask[*wire.Whos](ctx, c, &wire.Who{Conv: id, Seq: seq, After: after})
	if err != nil {
		return impart.Report{}, err
	}
	return reply.Report, nil
}

// List pages through the user's conversations as the server knows them, ids
// above after, with unread counts and newest events. It needs a connection and
// waits for one.
func (c *Client) List(ctx context.Context, after impart.ConvID, limit int) (impart.ConvsPage, error) {
	reply, err := ask[*wire.ConvsPage](ctx, c, &wire.Convs{After: after, Limit: &limit})
	if err != nil {
		return impart.ConvsPage{}, err
	}
	return reply.Page, nil
}
