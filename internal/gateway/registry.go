package gateway

import (
	"slices"
	"sync"

	"github.com/impart-im/impart"
)

// registry finds connections: by id all of them, by user those whose hello
// brought a good token, and apart from these the ones that take live delivery,
// so that a push walks no others.
type registry struct {
	mu    sync.RWMutex
	byID  map[uint64]*conn
	said  byUser
	live  byUser
	gone  chan struct{} // closed when the registry is shut and empty
	ended bool          // shut: takes no more
}

// byUser holds connections by user. Its slices are replaced, never changed, so
// that they can be handed out.
type byUser map[impart.UserID][]*conn

func (u byUser) add(c *conn) {
	u[c.session.User] = append(slices.Clip(u[c.session.User]), c)
}

func (u byUser) remove(c *conn) {
	user := c.session.User
	rest := slices.DeleteFunc(slices.Clone(u[user]), func(other *conn) bool { return other == c })
	if len(rest) == 0 {
		delete(u, user)
		return
	}
	u[user] = rest
}

func newRegistry() *registry {
	return &registry{byID: map[uint64]*conn{}, said: byUser{}, live: byUser{}, gone: make(chan struct{})}
}

// accept registers a connection that has not said hello, and starts it; false
// when the registry is shut. Both are one step, so that whoever shuts it misses
// no connection and no goroutine.
func (r *registry) accept(c *conn, start func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	r.byID[c.id] = c
	start()
	return true
}

// shut lets no more connections in.
func (r *registry) shut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	if len(r.byID) == 0 {
		close(r.gone)
	}
}

func (r *registry) isShut() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.ended
}

// introduce makes a connection known under its user.
func (r *registry) introduce(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.add(c)
}

// withdraw undoes introduce.
func (r *registry) withdraw(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.remove(c)
}

// subscribe starts live delivery to a bound connection.
func (r *registry) subscribe(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[c.id] == c && !slices.Contains(r.live[c.session.User], c) {
		r.live.add(c)
	}
}

// remove forgets a connection that has ended.
func (r *registry) remove(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, c.id)
	r.said.remove(c)
	r.live.remove(c)
	if r.ended && len(r.byID) == 0 {
		close(r.gone)
	}
}

func (r *registry) get(id uint64) *conn {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byID[id]
}

// of returns the user's connections, those included that still wait for their
// welcome; the slice is shared.
func (r *registry) of(user impart.UserID) []*conn {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.said[user]
}

func (r *registry) all() []*conn {
	r.mu.RLock()
	defer r.mu.RUnlock()
	conns := make([]*conn, 0, len(r.byID))
	for _, c := range r.byID {
		conns = append(conns, c)
	}
	return conns
}

// target is a connection with what its user may see.
type target struct {
	c       *conn
	periods impart.Periods
}

// idle reports whether nobody takes live delivery.
func (r *registry) idle() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.live) == 0
}

// among returns the live connections of an audience, walking whichever side is
// smaller.
func (r *registry) among(a *impart.Audience) []target {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var targets []target
	if len(a.Members) <= len(r.live) {
		for user, periods := range a.Members {
			for _, c := range r.live[user] {
				targets = append(targets, target{c, periods})
			}
		}
		return targets
	}
	for user, conns := range r.live {
		if periods, ok := a.Members[user]; ok {
			for _, c := range conns {
				targets = append(targets, target{c, periods})
			}
		}
	}
	return targets
}
