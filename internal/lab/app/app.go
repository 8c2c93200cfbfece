// Package app is an application on the Go SDK as a process of its own, which the
// lab starts, kills and starts again: orders come in as lines of JSON, and what
// happens goes out as such. It keeps what the SDK keeps and nothing else.
package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// Config says who the application is. The zero value of a time is the SDK's default.
type Config struct {
	URL    string
	User   impart.UserID
	Device impart.DeviceID
	Store  string // path; "" keeps it in memory
	Log    *slog.Logger

	ReplyTimeout, MinBackoff, MaxBackoff time.Duration
}

// Order is a line to the application.
type Order struct {
	// Do is what to do: send, outbox, or quit.
	Do   string        `json:"do"`
	Conv impart.ConvID `json:"conv,omitzero"`
	CMID impart.CMID   `json:"cmid,omitzero"`
	Body string        `json:"body,omitzero"`
}

// Line is a line from the application.
type Line struct {
	// Saw is what happened: taken (a message is durably in the outbox), handled (an
	// event of the log), settled, status, rewound, outbox (with N items) or failed.
	Saw    string        `json:"saw"`
	Conv   impart.ConvID `json:"conv,omitzero"`
	Seq    impart.Seq    `json:"seq,omitzero"`
	MID    impart.MID    `json:"mid,omitzero"`
	CMID   impart.CMID   `json:"cmid,omitzero"`
	Sender impart.UserID `json:"sender,omitzero"`
	Kind   impart.Kind   `json:"kind,omitzero"`
	Body   string        `json:"body,omitzero"`
	State  string        `json:"state,omitzero"`
	Err    string        `json:"err,omitzero"`
	N      int           `json:"n,omitzero"`
}

// Run is the whole application: it follows orders until quit, the end of in, or
// the end of ctx. An order that fails is told and is not the end.
func Run(ctx context.Context, cfg Config, in io.Reader, out io.Writer) error {
	a := &running{out: out}
	c, err := client.Open(ctx, client.Config{
		URL: cfg.URL, Device: cfg.Device, Token: client.StaticToken("dev:" + string(cfg.User)), Store: cfg.Store, Log: cfg.Log,
		ReplyTimeout: cfg.ReplyTimeout, MinBackoff: cfg.MinBackoff, MaxBackoff: cfg.MaxBackoff,
		Handler: client.Handler{Event: a.event, Settled: a.settled, Status: a.status, Rewound: a.rewound},
	})
	if err != nil {
		return err
	}
	a.client = c
	err = a.follow(ctx, in)
	return errors.Join(err, c.Close(), a.err)
}

// running is the application at work.
type running struct {
	client *client.Client

	mu  sync.Mutex // guards what follows
	out io.Writer
	err error
}

// tell writes one line at once: what was told is what a kill leaves.
func (a *running) tell(l Line) {
	a.mu.Lock()
	defer a.mu.Unlock()
	text, err := json.Marshal(l)
	if err == nil {
		_, err = a.out.Write(append(text, '\n'))
	}
	a.err = errors.Join(a.err, err)
}

func (a *running) follow(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var o Order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("an order that is none: %w", err)
		}
		if o.Do == "quit" {
			return nil
		}
		if err := a.carryOut(ctx, &o); err != nil {
			a.tell(Line{Saw: "failed", CMID: o.CMID, Err: err.Error()})
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return lines.Err()
}

func (a *running) carryOut(ctx context.Context, o *Order) error {
	switch o.Do {
	case "send":
		cmid, err := a.client.Send(ctx, client.Draft{Conv: o.Conv, CMID: o.CMID, Body: o.Body})
		if err != nil {
			return err
		}
		a.tell(Line{Saw: "taken", Conv: o.Conv, CMID: cmid})
	case "outbox":
		items, err := a.client.Outbox(ctx)
		if err != nil {
			return err
		}
		a.tell(Line{Saw: "outbox", N: len(items)})
	default:
		return fmt.Errorf("nobody knows how to %q", o.Do)
	}
	return nil
}

func (a *running) event(_ context.Context, ev impart.Event) error {
	a.tell(Line{Saw: "handled", Conv: ev.Conv, Seq: ev.Seq, MID: ev.MID, CMID: ev.CMID, Sender: ev.Sender, Kind: ev.Kind, Body: ev.Body})
	return nil
}

func (a *running) settled(s client.Settled) {
	l := Line{Saw: "settled", Conv: s.Conv, CMID: s.CMID, Seq: s.Seq, MID: s.MID}
	if s.Err != nil {
		l.Err = s.Err.Error()
	}
	a.tell(l)
}

func (a *running) status(s client.Status) {
	l := Line{Saw: "status", State: string(s.State)}
	if s.Err != nil {
		l.Err = s.Err.Error()
	}
	a.tell(l)
}

func (a *running) rewound(conv impart.ConvID, after impart.Seq) {
	a.tell(Line{Saw: "rewound", Conv: conv, Seq: after})
}
