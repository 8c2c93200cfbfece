package gateway

import (
	"slices"
	"sync"

	"github.com/impart-im/impart"
)

// registry finds connections: by id all of them, by user those that have said
// hello, and apart from these the ones that take live delivery, so that a push
// walks no others.
type registry struct {
	mu   sync.RWMutex
	byID map[uint64]*conn
	said byUser
	live byUser
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
	return &registry{byID: map[uint64]*conn{}, said: byUser{}, live: byUser{}}
}

// accept registers a connection that has not said hello.
func (r *registry) accept(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID[c.id] = c
}

// bind makes a connection that has said hello known under its user; false when
// it has ended meanwhile.
func (r *registry) bind(c *conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[c.id] != c {
		return false
	}
	r.said.add(c)
	return true
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
}

func (r *registry) get(id uint64) *conn {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byID[id]
}

// of returns the user's connections; the slice is shared.
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
