package gateway

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/pending"
)

// legacy is a set with flows of a gateway that has died.
type legacy struct {
	*pending.Local
	left []pending.Entry
	err  error
}

func (l *legacy) Inherit(_ context.Context, limit int) ([]pending.Entry, error) {
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
		phone.wants()
		estate.left = []pending.Entry{
			left("u-ben", "d-phone", "c-ab"),  // is here, and lags
			left("u-ana", "d-phone", "c-ab"),  // is here, and does not
			left("u-ben", "d-watch", "c-ab"),  // is not here
			left("u-ben", "d-phone", "c-zzz"), // is no member
			left("u-cy", "d-phone", "c-ab"),   // is unknown
		}
		for range inheritLimit { // more than is taken at once
			estate.left = append(estate.left, left("u-gone", "d-phone", "c-ab"))
		}
		time.Sleep(inheritEvery + time.Millisecond)
		if f := phone.wants("hint"); f["why"] != "retry" || f["conv"] != "c-ab" || f.num("head") != head {
			t.Errorf("hint = %v", f)
		}
		ana.wants()
		tablet.wants() // what was left was of another device
		if len(estate.left) > 0 {
			t.Errorf("%d flows were not taken", len(estate.left))
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
		estate.err = errors.New("redis is down")
		time.Sleep(3 * inheritEvery) // nothing but a note
	})
}
