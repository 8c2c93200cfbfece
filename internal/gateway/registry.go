package gateway

import (
	"slices"
	"sync"

	"github.com/impart-im/impart"
)

// registry finds connections: by id all of them, by user those that have said hello.
type registry struct {
	mu     sync.RWMutex
	byID   map[uint64]*conn
	byUser map[impart.UserID][]*conn // slices are replaced, never changed
}

func newRegistry() *registry {
	return &registry{byID: map[uint64]*conn{}, byUser: map[impart.UserID][]*conn{}}
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
	r.byUser[c.session.User] = append(slices.Clip(r.byUser[c.session.User]), c)
	return true
}

func (r *registry) remove(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, c.id)
	user := c.session.User
	rest := slices.DeleteFunc(slices.Clone(r.byUser[user]), func(other *conn) bool { return other == c })
	if len(rest) == 0 {
		delete(r.byUser, user)
		return
	}
	r.byUser[user] = rest
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
	return r.byUser[user]
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

// among returns the connections of an audience, walking whichever side is smaller.
func (r *registry) among(a *impart.Audience) []target {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var targets []target
	if len(a.Members) <= len(r.byUser) {
		for user, periods := range a.Members {
			for _, c := range r.byUser[user] {
				targets = append(targets, target{c, periods})
			}
		}
		return targets
	}
	for user, conns := range r.byUser {
		if periods, ok := a.Members[user]; ok {
			for _, c := range conns {
				targets = append(targets, target{c, periods})
			}
		}
	}
	return targets
}
