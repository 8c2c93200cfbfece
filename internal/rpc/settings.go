package rpc

import "fmt"

// otherSettings warns of a node whose settings do not fit this gateway's, once for each
// connection to it. c.mu is held.
func (c *Client) otherSettings(s *session) {
	if c.deafTo(s) {
		c.log.Warn("a logic node is on another bus than this gateway: they do not hear each other, and messages come with the sweep",
			"node", s.node.addr, "bus", s.bus, "own", c.cfg.Bus)
	}
	if c.cfg.MaxBody != 0 && s.maxBody != 0 && s.maxBody != c.cfg.MaxBody {
		c.log.Warn("IM_MAX_BODY of a logic node is not this gateway's: clients are told the smaller, set both alike",
			"node", s.node.addr, "max_body", s.maxBody, "own", c.cfg.MaxBody)
	}
}

// deafTo reports whether what a node tells is told where this gateway does not listen.
func (c *Client) deafTo(s *session) bool {
	return s != nil && s.bus != "" && c.cfg.Bus != "" && s.bus != c.cfg.Bus
}

// OtherBus is nil while every node that is connected is on this gateway's bus, as far
// as that can be told; otherwise it names one that is not.
func (c *Client) OtherBus() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if c.deafTo(n.session) {
			return fmt.Errorf("logic node %s is on another bus (%s) than this gateway (%s)", n.addr, n.session.bus, c.cfg.Bus)
		}
	}
	return nil
}

// MaxBody is the smallest limit of a message's body, in bytes, of the nodes that are
// connected: each may get any message. 0: none has told.
func (c *Client) MaxBody() (smallest int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if s := n.session; s != nil && s.maxBody != 0 && (smallest == 0 || s.maxBody < smallest) {
			smallest = s.maxBody
		}
	}
	return smallest
}
