package campaign

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
	"github.com/impart-im/impart/internal/lab/campaign/history"
)

// phone is a device with an application on the SDK. The application writes down
// all it is told; its own state is as durable as its store.
type phone struct {
	Device
	run    *Run
	number int
	net    Network
	client *client.Client // nil: it does not run
	store  *history.Store
	path   string
	stores int

	kept     string // a copy of the store that was put aside; "": none
	keptView *history.Store
	twin     *phone
	starts   int // since there is a twin
	byes     int // before there was one

	mu     sync.Mutex // guards what follows
	refuse bool       // the handler fails
	dead   bool       // the application has crashed, as far as its store can tell
	alive  *client.Client
	die    bool // the handler is to be caught at its next event
	caught chan struct{}
}

var errRefused = errors.New("the application is not in the mood")

func (r *Run) newPhone(number int, d Device) *phone {
	p := &phone{Device: d, run: r, number: number, net: r.world.Network(number)}
	p.newStore(nil)
	return p
}

// newStore begins another store: an empty one, or one with what from has.
func (p *phone) newStore(from *history.Store) {
	p.stores++
	p.path = filepath.Join(p.run.world.Dir(), fmt.Sprintf("phone-%d-%d.db", p.number, p.stores))
	p.store = p.run.tape.NewStore(history.Store{
		Name: fmt.Sprintf("%s %s #%d", p.User, p.Device.Device, p.stores),
		User: p.User, Device: p.Device.Device, Start: p.History, Again: p.stores > 1,
	}, from)
}

// start runs the application.
func (p *phone) start() error {
	store := p.store
	cfg := client.Config{
		URL: p.net.URL(), Device: p.Device.Device, Token: client.StaticToken("dev:" + string(p.User)), Store: p.path,
		History: p.History, HTTPClient: p.net.HTTPClient(),
		Handler: client.Handler{
			Event: func(ctx context.Context, ev impart.Event) error { return p.event(ctx, store, ev) },
			Rewound: func(conv impart.ConvID, after impart.Seq) {
				store.Rewound(conv, after)
			},
			Settled: func(s client.Settled) {
				if s.Err != nil {
					p.run.tape.Refused(p.User, s.CMID, s.Err.Code)
					return
				}
				p.run.tape.Sent(p.User, s.CMID, s.Conv, s.Seq, s.MID)
			},
		},
	}
	p.run.world.Tune(&cfg)
	p.setDead(false)
	c, err := client.Open(p.run.ctx, cfg)
	if err != nil {
		return fmt.Errorf("%s does not start: %w", store.Name, err)
	}
	p.client = c
	p.starts++
	p.mu.Lock()
	p.alive = c
	p.mu.Unlock()
	return nil
}

func (p *phone) event(ctx context.Context, store *history.Store, ev impart.Event) error {
	p.mu.Lock()
	refuse, die, caught := p.refuse || p.dead, p.die, p.caught
	p.die = false
	p.mu.Unlock()
	if refuse {
		return errRefused
	}
	store.Handed(ev)
	if die {
		close(caught)
		<-ctx.Done() // it is killed in here
		return ctx.Err()
	}
	return nil
}

// stop ends the application in good order.
func (p *phone) stop() error {
	if p.client == nil {
		return nil
	}
	err := p.client.Close()
	p.client = nil
	return err
}

// crash ends the application as kill -9 does, and leaves its store as that would.
func (p *phone) crash() error {
	if p.client == nil {
		return nil
	}
	p.setDead(true)
	left := p.path + ".crash"
	if err := crashCopy(p.path, left); err != nil {
		return err
	}
	return p.becomes(left)
}

// dies is setDead for an application that may have ended meanwhile.
func (p *phone) dies(c *client.Client) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c != p.alive {
		return false
	}
	p.dead = true
	return true
}

func (p *phone) setDead(dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = dead
}

// becomes ends the application and puts another file in the place of its store.
func (p *phone) becomes(path string) error {
	if err := p.stop(); err != nil {
		return err
	}
	p.store.Crashed()
	p.path = path
	return nil
}

// send gives the application a message to send.
func (p *phone) send(conv impart.ConvID, cmid impart.CMID, body string) error {
	p.run.tape.Wants(history.Item{User: p.User, Conv: conv, CMID: cmid, Kind: impart.KindMsg, Body: body})
	_, err := p.client.Send(p.run.ctx, client.Draft{Conv: conv, CMID: cmid, Body: body})
	if err != nil {
		return fmt.Errorf("%s cannot take a message: %w", p.store.Name, err)
	}
	p.run.tape.Took(p.store, p.User, cmid)
	return nil
}

// recall takes a message of this device's user back. Where the store does not
// hold it there is nothing to do.
func (p *phone) recall(conv impart.ConvID, target impart.CMID) error {
	events, err := p.client.Events(p.run.ctx, conv, 0, 10_000)
	if err != nil {
		return err
	}
	for _, ev := range events {
		if ev.Sender == p.User && ev.CMID == target {
			return p.recallAt(conv, ev.Seq, target)
		}
	}
	return nil
}

func (p *phone) recallAt(conv impart.ConvID, seq impart.Seq, target impart.CMID) error {
	began := p.run.tape.Begin()
	cmid, err := p.client.Recall(p.run.ctx, conv, seq)
	var refusal *impart.Error
	if errors.As(err, &refusal) && refusal.Code == impart.NotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s cannot recall: %w", p.store.Name, err)
	}
	p.run.tape.Made(began, p.store, history.Item{User: p.User, Conv: conv, CMID: cmid, Kind: impart.KindRecall, Target: target})
	return nil
}

func (p *phone) cancel(cmid impart.CMID) error {
	_, err := p.client.Cancel(p.run.ctx, cmid)
	if errors.Is(err, client.ErrUnknownMessage) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s cannot cancel: %w", p.store.Name, err)
	}
	p.run.tape.Cancelled(p.store, cmid)
	return nil
}

// read reads all that is here.
func (p *phone) read(conv impart.ConvID) error {
	list, err := p.client.Conversations(p.run.ctx)
	if err != nil {
		return err
	}
	for _, c := range list {
		if c.Conv == conv {
			return p.client.Read(p.run.ctx, conv, c.Stored)
		}
	}
	return nil
}

// holds is what its store has, and its cursors as the server has them.
func (p *phone) holds() (history.Held, error) {
	h := history.Held{Store: p.store, Refused: map[impart.CMID]impart.Code{}, Convs: map[impart.ConvID]history.HeldConv{}}
	h.Status = fmt.Sprintf("%+v", p.client.Status())
	items, err := p.client.Outbox(p.run.ctx)
	if err != nil {
		return h, err
	}
	for _, it := range items {
		h.Outbox = append(h.Outbox, it.CMID)
	}
	if items, err = p.client.Refused(p.run.ctx); err != nil {
		return h, err
	}
	for _, it := range items {
		h.Refused[it.CMID] = it.Err.Code
	}
	convs, err := p.client.Conversations(p.run.ctx)
	if err != nil {
		return h, err
	}
	cursors, err := p.run.world.Cursors(p.run.ctx, p.User, p.Device.Device)
	if err != nil {
		cursors = map[impart.ConvID]impart.Seq{} // the device may be unknown yet; looked at again
	}
	for _, c := range convs {
		events, err := p.client.Events(p.run.ctx, c.Conv, 0, 10_000)
		if err != nil {
			return h, err
		}
		h.Convs[c.Conv] = history.HeldConv{
			Start: c.Start, Stored: c.Stored, Handled: c.Handled, Read: c.Read, Events: events, Delivered: cursors[c.Conv],
		}
	}
	return h, nil
}
