package client

import "sync"

// maxNotes is how many calls of Handler may wait for a slow application before
// typing and receipts are dropped, states of the connection are left out, and the
// outbox waits, since each item settled is another call. The connection itself
// never waits for the application, which may be waiting for it.
const maxNotes = 1024

// notes are calls of Handler that wait for their turn.
type notes struct {
	wake chan struct{}

	mu     sync.Mutex // guards what follows
	list   []func()
	status bool // a state was left out
}

// add queues a call that must not be lost.
func (n *notes) add(tell func()) {
	n.mu.Lock()
	n.list = append(n.list, tell)
	n.mu.Unlock()
	poke(n.wake)
}

// full reports whether the application is far behind.
func (n *notes) full() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.list) >= maxNotes
}

// next takes the call whose turn it is. freed reports that the list was full up to now.
func (n *notes) next() (tell func(), freed, status bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.list) == 0 {
		status, n.status = n.status, false
		return nil, false, status
	}
	freed = len(n.list) == maxNotes
	tell, n.list[0], n.list = n.list[0], nil, n.list[1:]
	return tell, freed, false
}

// mayNote is for what can be lost.
func (c *Client) mayNote(tell func()) {
	if !c.notes.full() {
		c.notes.add(tell)
	}
}

// noteStatus tells of a state, or once there is time of the one that it is by then.
func (c *Client) noteStatus(s Status) {
	if c.cfg.Handler.Status == nil {
		return
	}
	n := &c.notes
	n.mu.Lock()
	if n.status = n.status || len(n.list) >= maxNotes; !n.status {
		n.list = append(n.list, func() { c.cfg.Handler.Status(s) })
	}
	n.mu.Unlock()
	poke(n.wake)
}

// runNotes calls the handler, one call after the other.
func (c *Client) runNotes() {
	for c.ctx.Err() == nil {
		tell, freed, status := c.notes.next()
		switch {
		case freed:
			poke(c.wakeLink)
		case status:
			now := c.Status()
			tell = func() { c.cfg.Handler.Status(now) }
		}
		if tell != nil {
			tell()
			continue
		}
		select {
		case <-c.notes.wake:
		case <-c.ctx.Done():
		}
	}
}
