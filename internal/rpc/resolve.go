package rpc

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"
)

// resolveEvery is how often names are looked up again, and resolveWithin how long
// that may take.
const (
	resolveEvery  = 5 * time.Second
	resolveWithin = 3 * time.Second
	// resolvePause keeps a node that comes and goes from asking all the time.
	resolvePause = 200 * time.Millisecond
)

// target is one address as it was given.
type target struct {
	host, port string
	lookUp     bool // each address that the host leads to is a node of its own
}

// dnsScheme marks a name that leads to several nodes.
const dnsScheme = "dns:///"

// CheckTarget says what is wrong with the address of a logic node.
func CheckTarget(addr string) error {
	_, err := parseTarget(addr)
	return err
}

func parseTarget(addr string) (target, error) {
	rest, named := strings.CutPrefix(addr, dnsScheme)
	host, port, err := net.SplitHostPort(rest)
	if err != nil || host == "" || port == "" || strings.Contains(rest, "/") {
		return target{}, fmt.Errorf("%q should be HOST:PORT, or %sNAME:PORT", addr, dnsScheme)
	}
	return target{host, port, named}, nil
}

// resolve keeps the set of nodes up to date until the client is closed.
func (c *Client) resolve() {
	every := time.NewTicker(resolveEvery)
	defer every.Stop()
	for {
		c.update()
		select {
		case <-every.C:
		case <-c.again:
			select {
			case <-time.After(resolvePause):
			case <-c.ctx.Done():
				return
			}
		case <-c.ctx.Done():
			return
		}
	}
}

// update makes nodes of new addresses, and retires those that are gone. A name that
// cannot be looked up keeps what it had.
func (c *Client) update() {
	wanted := map[string]string{} // host by address
	keep := map[string]bool{}     // hosts that could not be looked up
	for _, t := range c.targets {
		if !t.lookUp {
			wanted[net.JoinHostPort(t.host, t.port)] = t.host
			continue
		}
		ctx, cancel := context.WithTimeout(c.ctx, resolveWithin)
		addrs, err := c.cfg.Resolve(ctx, t.host)
		cancel()
		if err != nil || len(addrs) == 0 {
			c.log.Warn("a name of logic nodes cannot be looked up; those that are known stay", "name", t.host, "err", err)
			keep[t.host] = true
			continue
		}
		for _, addr := range addrs {
			wanted[net.JoinHostPort(addr, t.port)] = t.host
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return
	}
	for addr, n := range c.nodes {
		_, stays := wanted[addr]
		if stays || keep[n.host] {
			continue
		}
		n.retired = true
		if n.session == nil {
			c.forget(n)
		}
	}
	for addr, host := range wanted {
		if n := c.nodes[addr]; n != nil {
			n.retired = false
			continue
		}
		ctx, cancel := context.WithCancel(c.ctx)
		n := &node{c: c, addr: addr, host: host, hash: hashOf(addr), cancel: cancel, over: make(chan struct{})}
		c.nodes[addr] = n
		c.running.Go(func() { n.run(ctx) })
	}
}
