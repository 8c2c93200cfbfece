package gateway

import (
	"sync"

	"github.com/impart-im/impart"
)

// turns lets the hellos of one device be said one at a time. Sessions then rise
// in the order in which connections were made: a hello that was held up on its
// way, as that of a link that has died since, does not outdo the connection that
// came after it.
type turns struct {
	mu      sync.Mutex
	devices map[deviceKey]*turn
}

type deviceKey struct {
	user   impart.UserID
	device impart.DeviceID
}

// turn is held by whoever has put into taken.
type turn struct {
	taken chan struct{}
	users int // holding or waiting
}

// take waits for the device's turn. give ends it.
func (t *turns) take(user impart.UserID, device impart.DeviceID) (give func()) {
	key := deviceKey{user, device}
	t.mu.Lock()
	mine := t.devices[key]
	if mine == nil {
		mine = &turn{taken: make(chan struct{}, 1)}
		if t.devices == nil {
			t.devices = map[deviceKey]*turn{}
		}
		t.devices[key] = mine
	}
	mine.users++
	t.mu.Unlock()
	mine.taken <- struct{}{}
	return func() {
		<-mine.taken
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(t.devices, key)
		}
	}
}
