package gateway

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/pending"
)

// legacy is a set with flows of a gateway that has died.
type legacy struct {
	*pending.Local

	mu   sync.Mutex // guards what follows
	left []pending.Entry
	err  error
}

// leaves changes what is there to be taken over.
func (l *legacy) leaves(err error, flows ...pending.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left, l.err = append(l.left, flows...), err
}

func (l *legacy) rest() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.left)
}

func (l *legacy) Inherit(_ context.Context, limit int) ([]pending.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(limit, len(l.left))
	taken := l.left[:n]
	l.left = l.left[n:]
	return taken, l.err
}

func left(user impart.UserID, device impart.DeviceID, conv impart.ConvID) pending.Entry {
	return pending.Entry{Key: pending.Key{User: user, Device: device, Conv: conv, Conn: 77}, Seq: 1, Attempts: 3, Ladder: pending.DefaultLadder}
}

func TestWhatADeadGatewayLeftIsDeliveredWhereTheDeviceIsNow(t *testing.T) {
	estate := &legacy{Local: pending.NewLocal()}
	inWorld(t, func(c *Config) { c.Pending = estate }, func(w *world) {
		ana, phone, tablet := w.connect("u-ana", "d-phone"), w.connect("u-ben", "d-phone"), w.connect("u-ben", "d-tablet")
		w.bus.lose.Store(int32(bus.Wake)) // the push is lost with the gateway that should have made it
		head := ana.says("c-ab", "m1", "hi").num("seq")
		ana.acks("c-ab", head)
		phone.take() // receipts
		tablet.take()
		ana.take()
		estate.leaves(nil,
			left("u-ben", "d-phone", "c-ab"),  // is here, and lags
			left("u-ana", "d-phone", "c-ab"),  // is here, and does not
			left("u-ben", "d-watch", "c-ab"),  // is not here
			left("u-ben", "d-phone", "c-zzz"), // is no member
			left("u-cy", "d-phone", "c-ab"),   // is unknown
		)
		for range inheritLimit { // more than is taken at once
			estate.leaves(nil, left("u-gone", "d-phone", "c-ab"))
		}
		time.Sleep(inheritEvery + time.Millisecond)
		if f := phone.wants("hint"); f["why"] != "retry" || f["conv"] != "c-ab" || f.num("head") != head {
			t.Errorf("hint = %v", f)
		}
		ana.wants()
		tablet.wants() // what was left was of another device
		if n := estate.rest(); n > 0 {
			t.Errorf("%d flows were not taken", n)
		}
		if n, _ := estate.Len(t.Context()); n != 1 {
			t.Errorf("%d flows are pending, want 1", n)
		}
		time.Sleep(pending.DefaultLadder[0]) // its attempts go on from here
		if again := phone.take(); len(again) != 1 || again[0].t() != "event" {
			t.Errorf("then it gets %v", again)
		}
		phone.acks("c-ab", head)
		if n, _ := estate.Len(t.Context()); n != 0 {
			t.Errorf("%d flows are pending after the ack", n)
		}
		estate.leaves(errors.New("redis is down"))
		time.Sleep(3 * inheritEvery) // nothing but a note
	})
}
