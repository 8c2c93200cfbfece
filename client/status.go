package client

import (
	"time"

	"github.com/impart-im/impart"
)

// State says what the connection is doing.
type State string

// The states of a client.
const (
	Connecting State = "connecting"  // no connection yet; one is being made
	CatchingUp State = "catching-up" // connected; what was missed is being fetched
	Online     State = "online"      // caught up; events come as they happen
	Waiting    State = "waiting"     // no connection; the next attempt is at RetryAt
	Stopped    State = "stopped"     // no connection, and none by itself: see Err
)

// Status is what an application can show of its connection.
type Status struct {
	State  State
	User   impart.UserID // "" until a server has said it
	Device impart.DeviceID
	Epoch  impart.Epoch
	// Err is why the last connection ended or could not be made; nil once the next one
	// is there. A [*Bye] if the server said so; an [*impart.Error] with UNAUTHENTICATED
	// if the token was refused.
	Err error
	// RetryAt is when the next attempt will be, while Waiting.
	RetryAt time.Time
}

// Bye is the error of a connection that the server closed.
type Bye struct {
	Code string // DRAIN, SUPERSEDED, IDLE, EXPIRED, REVOKED
	// Final: the client does not return by itself. SUPERSEDED means that a newer
	// connection of this device is in use, maybe from a copy of this store.
	Final bool
}

func (b *Bye) Error() string {
	switch b.Code {
	case "SUPERSEDED":
		return "client: this device is connected from elsewhere (SUPERSEDED)"
	case "REVOKED":
		return "client: the server has revoked this user (REVOKED)"
	case "EXPIRED":
		return "client: the token has expired (EXPIRED)"
	case "DRAIN":
		return "client: the server is shutting down (DRAIN)"
	}
	return "client: the server has closed the connection (" + b.Code + ")"
}

// Status is the present one.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// setStatus changes the status and tells everybody.
func (c *Client) setStatus(change func(*Status)) {
	c.mu.Lock()
	before := c.status
	change(&c.status)
	after := c.status
	if after == before {
		c.mu.Unlock()
		return
	}
	c.announce()
	c.mu.Unlock()
	c.noteStatus(after)
}

// announce wakes those who wait for a change. c.mu is held.
func (c *Client) announce() {
	close(c.changed)
	c.changed = make(chan struct{})
}
