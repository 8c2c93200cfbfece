package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab/probe"
	"github.com/impart-im/impart/wire"
)

// replyWithin bounds the wait for a reply on the bench.
const replyWithin = 15 * time.Second

// Device is a device that does exactly what a check tells it to, frame by frame.
type Device struct {
	b    *Bench
	Name string // on the timeline
	User impart.UserID
	ID   impart.DeviceID
	// Welcome and Subbed are what the server said at the beginning.
	Welcome *wire.Welcome
	Subbed  *wire.Subbed
	*probe.Conn
}

// Device connects a device to a server's address, with live delivery.
func (b *Bench) Device(addr string, user impart.UserID) *Device {
	return b.DeviceAs(addr, user, "d-1", "i-1", nil)
}

// DeviceAs is Device with the parts of its hello: device, install and n.
func (b *Bench) DeviceAs(addr string, user impart.UserID, device impart.DeviceID, install string, n *int64) *Device {
	d, err := b.TryDevice(addr, user, device, install, n)
	b.Must(err)
	return d
}

// TryDevice is DeviceAs where the connection may fail.
func (b *Bench) TryDevice(addr string, user impart.UserID, device impart.DeviceID, install string, n *int64) (*Device, error) {
	return b.TryDeviceWithin(replyWithin, addr, user, device, install, n)
}

// TryDeviceWithin is TryDevice that gives up after a time.
func (b *Bench) TryDeviceWithin(within time.Duration, addr string, user impart.UserID, device impart.DeviceID, install string, n *int64) (*Device, error) {
	token := "dev:" + string(user)
	d, err := b.tryDevice(within, addr, token, user, device, install, n)
	// Answered before its commit, a hello is not yet seen by the sub that follows.
	for tries := 0; b.Sabotage.Bug == fault.SentBeforeCommit && impart.CodeOf(err) == impart.StaleInstall && tries < 10; tries++ {
		d, err = b.tryDevice(within, addr, token, user, device, install, n)
	}
	return d, err
}

// TryDeviceUntil is TryDevice at a server with [Bench.Tokens], with one that ends then.
func (b *Bench) TryDeviceUntil(ends time.Time, addr string, user impart.UserID, device impart.DeviceID) (*Device, error) {
	return b.tryDevice(replyWithin, addr, token(user, ends), user, device, "i-1", nil)
}

func (b *Bench) tryDevice(within time.Duration, addr, token string, user impart.UserID, device impart.DeviceID, install string, n *int64) (*Device, error) {
	d := &Device{b: b, Name: string(user), User: user, ID: device}
	if device != "d-1" {
		d.Name += " " + string(device)
	}
	ctx, cancel := context.WithTimeoutCause(b.ctx, within, fmt.Errorf("no welcome within %v", within))
	defer cancel()
	conn, err := probe.Dial(ctx, addr, func(what, text string) { b.timeline.add(d.Name, what, clip(text)) })
	if err != nil {
		return nil, err
	}
	d.Conn = conn
	if d.Welcome, d.Subbed, err = conn.LoginWith(ctx, token, device, install, n); err != nil {
		conn.Close()
		return nil, err
	}
	b.Cleanup(conn.Close)
	return d, nil
}

// maxNote bounds the text of a frame on the timeline.
const maxNote = 300

func clip(s string) string {
	if len(s) <= maxNote {
		return s
	}
	return s[:maxNote] + "…"
}

// Send sends a message and waits for the answer.
func (d *Device) Send(conv impart.ConvID, cmid impart.CMID, body string) (impart.Sent, error) {
	return d.SendWithin(replyWithin, conv, cmid, body)
}

// SendWithin is Send that gives up after a time.
func (d *Device) SendWithin(within time.Duration, conv impart.ConvID, cmid impart.CMID, body string) (impart.Sent, error) {
	ctx, cancel := d.b.within(within)
	defer cancel()
	reply, err := d.Ask(ctx, &wire.Send{Conv: conv, CMID: cmid, Body: body})
	if err != nil {
		return impart.Sent{}, err
	}
	return reply.(*wire.Sent).Sent, nil
}

// MustSend is Send that ends the run unless the message is stored.
func (d *Device) MustSend(conv impart.ConvID, cmid impart.CMID, body string) impart.Sent {
	sent, err := d.Send(conv, cmid, body)
	d.b.Must(err)
	return sent
}

// Ack acknowledges a conversation up to seq and gives the merged cursor.
func (d *Device) Ack(conv impart.ConvID, seq impart.Seq) (impart.Seq, error) {
	ctx, cancel := d.b.within(replyWithin)
	defer cancel()
	reply, err := d.Ask(ctx, probe.AckOf(conv, seq, nil))
	if err != nil {
		return 0, err
	}
	acked := reply.(*wire.Acked)
	if len(acked.Items) != 1 {
		return 0, fmt.Errorf("acked has %d conversations instead of one", len(acked.Items))
	}
	return acked.Items[0].Delivered, acked.Items[0].Err
}

// Sync reads one page of events after a seq.
func (d *Device) Sync(conv impart.ConvID, after impart.Seq) impart.Page {
	ctx, cancel := d.b.within(replyWithin)
	defer cancel()
	reply, err := d.Ask(ctx, &wire.Sync{Conv: conv, After: &after})
	d.b.Must(err)
	return reply.(*wire.Synced).Page
}

// Pull reads one page of what the device lacks.
func (d *Device) Pull() impart.Pulled {
	ctx, cancel := d.b.within(replyWithin)
	defer cancel()
	reply, err := d.Ask(ctx, &wire.Pull{})
	d.b.Must(err)
	return reply.(*wire.Pulled).Pulled
}

// Hears waits for a frame, from the first one on, and reports whether it came in
// time.
func (d *Device) Hears(within time.Duration, match func(wire.ServerFrame) bool) (probe.Heard, bool) {
	ctx, cancel := d.b.within(within)
	defer cancel()
	heard, _, err := d.Await(ctx, 0, match)
	if d.b.ctx.Err() != nil {
		d.b.Must(err)
	}
	return heard, err == nil
}

// Count is how many frames it has heard that match.
func (d *Device) Count(match func(wire.ServerFrame) bool) (n int) {
	for _, h := range d.Heard() {
		if match(h.Frame) {
			n++
		}
	}
	return n
}

func (b *Bench) within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(b.ctx, d, fmt.Errorf("nothing within %v", d))
}
