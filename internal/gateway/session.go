package gateway

import (
	"context"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

const rateLimitPause = time.Second

// greet binds the connection to a device.
func (c *conn) greet(hello *wire.Hello) {
	ctx, cancel := context.WithTimeout(c.g.ctx, c.g.cfg.RequestTime)
	defer cancel()
	identity, err := c.g.cfg.Verify(ctx, hello.Token)
	if err != nil {
		c.rejectHello(hello.RID, err)
		return
	}
	welcome, err := c.g.cfg.Logic.Hello(ctx, impart.Hello{
		Identity: identity, Device: hello.Device, Install: hello.Install, N: hello.N,
		History: hello.History, Create: c.g.cfg.Create,
	})
	if err != nil {
		c.rejectHello(hello.RID, err)
		return
	}
	if !c.bind(identity, welcome) {
		return
	}
	_ = c.nc.SetReadDeadline(time.Time{})
	cfg := &c.g.cfg
	c.reply(&wire.Welcome{
		RID: hello.RID, User: welcome.Session.User, Device: welcome.Session.Device,
		Install: welcome.Session.Install, Conn: c.name(), Epoch: welcome.Epoch, Now: welcome.Now, N: welcome.N,
		Limits: wire.Limits{
			Body: cfg.MaxBody, Frame: cfg.MaxFrame, Inflight: cfg.MaxInflight, AckEvery: cfg.AckEvery, Heartbeat: cfg.Heartbeat,
		},
	})
	// Two connections of one device can say hello at once: the higher session wins,
	// whichever was registered first.
	c.g.supersede(welcome.Session.User, welcome.Session.Device, welcome.Session.Number)
}

// rejectHello answers a hello that failed. A refusal closes; what may be
// repeated does not.
func (c *conn) rejectHello(rid string, err error) {
	if e := impart.AsError(err); e.Code == impart.Unauthenticated {
		c.refuse(rid, e)
		return
	}
	c.fail(rid, err)
}

// bind opens the connection and registers it. It is registered before any head
// is read for it, so that no wake-up falls between the two (hole 11).
func (c *conn) bind(identity impart.Identity, welcome impart.Welcome) bool {
	c.mu.Lock()
	if c.stage != greeting {
		c.mu.Unlock()
		return false
	}
	c.session, c.issued, c.expires = welcome.Session, identity.Issued, identity.Expires
	c.fresh = welcome.Fresh
	c.stage = open
	c.mu.Unlock()
	return c.g.conns.bind(c)
}

// maxSubbed is how many conversations a subbed frame lists.
const maxSubbed = 1000

// subscribe starts live delivery. Pushes may overtake the answer.
func (c *conn) subscribe(ctx context.Context, f *wire.Sub) (wire.ServerFrame, error) {
	c.mu.Lock()
	c.subscribed = true
	fresh := c.fresh
	c.mu.Unlock()
	c.g.conns.subscribe(c)
	page, err := c.compare(ctx, fresh)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.fresh = false
	c.mu.Unlock()
	return &wire.Subbed{RID: f.RID, Convs: page.Convs, More: page.More, Epoch: page.Epoch}, nil
}

// supersede closes the device's connections with a session below number, and
// any connection of it that is itself below another one here.
func (g *Gateway) supersede(user impart.UserID, device impart.DeviceID, number int64) {
	conns := g.conns.of(user)
	for _, c := range conns {
		if c.session.Device == device {
			number = max(number, c.session.Number)
		}
	}
	for _, c := range conns {
		if c.session.Device == device && c.session.Number < number {
			c.bye(wire.ByeSuperseded, 0)
		}
	}
}

// revoke closes the user's connections whose token was issued before at; at 0,
// all of them. A token that does not say when it was issued counts as older.
func (g *Gateway) revoke(user impart.UserID, at impart.Millis) {
	for _, c := range g.conns.of(user) {
		if at == 0 || c.issued < at {
			c.bye(wire.ByeRevoked, 0)
		}
	}
}
