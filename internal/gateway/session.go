package gateway

import (
	"context"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// greet binds the connection to a device. It is known under its user before the
// session is raised, so that no takeover and no revocation falls between.
func (c *conn) greet(hello *wire.Hello) {
	said := time.Now()
	ctx, cancel := context.WithTimeout(c.g.ctx, c.g.cfg.RequestTime)
	defer cancel()
	identity, err := c.g.cfg.Verify(ctx, hello.Token)
	if err != nil {
		c.rejectHello(hello.RID, err)
		return
	}
	if !c.introduce(identity, hello.Device) {
		return
	}
	defer c.g.turns.take(identity.User, hello.Device)()
	if c.isOvertaken() {
		c.bye(wire.ByeSuperseded, 0)
		return
	}
	welcome, err := c.g.cfg.Logic.Hello(ctx, impart.Hello{
		Identity: identity, Device: hello.Device, Install: hello.Install, N: hello.N,
		History: hello.History, Create: c.g.cfg.Create, Age: time.Since(said),
	})
	if impart.CodeOf(err) == impart.StaleInstall {
		c.bye(wire.ByeSuperseded, 0)
		return
	}
	if err != nil {
		c.g.conns.withdraw(c)
		c.rejectHello(hello.RID, err)
		return
	}
	outdone, ok := c.bind(hello.RID, welcome)
	switch {
	case !ok:
		return
	case outdone:
		c.bye(wire.ByeSuperseded, 0)
	case welcome.Epoch < c.g.Epoch():
		c.hint("", 0, wire.WhyResume) // raised meanwhile, when this one was not to be told
	}
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

// introduce makes the connection known under its user; false when it has ended
// meanwhile.
func (c *conn) introduce(identity impart.Identity, device impart.DeviceID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage != greeting {
		return false
	}
	c.session = impart.Session{User: identity.User, Device: device}
	c.issued, c.expires, c.outdone = identity.Issued, identity.Expires, 0
	c.g.conns.introduce(c)
	return true
}

// isOvertaken reports whether the device has said hello on a connection that was
// made after this one.
func (c *conn) isOvertaken() bool {
	for _, other := range c.g.conns.of(c.session.User) {
		if other.id > c.id && other.isOf(c.session.User, c.session.Device) {
			return true
		}
	}
	return false
}

func (c *conn) isOf(user impart.UserID, device impart.DeviceID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.User == user && c.session.Device == device
}

// bind opens the connection, with the welcome before anything else. outdone: the
// device has a newer session already. ok is false when the connection has ended
// meanwhile.
func (c *conn) bind(rid string, welcome impart.Welcome) (outdone, ok bool) {
	cfg := &c.g.cfg
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage != greeting {
		return false, false
	}
	c.stage, c.session, c.fresh = open, welcome.Session, welcome.Fresh
	c.checkAt = c.g.nextCheck(time.Now())
	_ = c.nc.SetReadDeadline(time.Time{})
	c.reply(&wire.Welcome{
		RID: rid, User: welcome.Session.User, Device: welcome.Session.Device,
		Install: welcome.Session.Install, Conn: c.name(), Epoch: welcome.Epoch, Now: welcome.Now, N: welcome.N,
		Limits: wire.Limits{
			Body: cfg.bodyLimit(), Frame: cfg.MaxFrame, Inflight: cfg.MaxInflight, AckEvery: cfg.AckEvery, Heartbeat: cfg.Heartbeat,
		},
	})
	return c.outdone > welcome.Session.Number, true
}

// bodyLimit is what a client may count on, in bytes.
func (c *Config) bodyLimit() int {
	if c.RulesBody != nil {
		if rules := c.RulesBody(); rules > 0 {
			return min(c.MaxBody, rules)
		}
	}
	return c.MaxBody
}

// maxSubbed is how many conversations a subbed frame lists.
const maxSubbed = 1000

// subscribe starts live delivery. It does so before any head is read, so that no
// wake-up falls between the two (hole 11); pushes may overtake the answer. Should
// the reading fail, the next sweep checks.
func (c *conn) subscribe(ctx context.Context, f *wire.Sub) (wire.ServerFrame, error) {
	c.mu.Lock()
	c.subscribed, c.checkAt = true, time.Time{}
	fresh := c.fresh
	c.mu.Unlock()
	c.g.conns.subscribe(c)
	c.listen(ctx)
	page, err := c.compare(ctx, fresh)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.fresh = false
	c.mu.Unlock()
	c.checked()
	return &wire.Subbed{RID: f.RID, Convs: page.Convs, More: page.More, Epoch: page.Epoch}, nil
}

// supersede closes the device's connections with a session below number.
func (g *Gateway) supersede(user impart.UserID, device impart.DeviceID, number int64) {
	for _, c := range g.conns.of(user) {
		if c.below(user, device, number) {
			c.bye(wire.ByeSuperseded, 0)
		}
	}
}

// below reports whether the connection has an older session of the device. One
// that does not know its own yet remembers the number.
func (c *conn) below(user impart.UserID, device impart.DeviceID, number int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.User != user || c.session.Device != device {
		return false
	}
	if c.stage == greeting {
		c.outdone = max(c.outdone, number)
		return false
	}
	return c.session.Number < number
}

// revoke closes the user's connections whose token was issued before at; at 0,
// all of them. A token that does not say when it was issued counts as older.
func (g *Gateway) revoke(user impart.UserID, at impart.Millis) {
	for _, c := range g.conns.of(user) {
		if id := c.identity(); id.User == user && (at == 0 || id.Issued < at) {
			c.bye(wire.ByeRevoked, 0)
		}
	}
}
