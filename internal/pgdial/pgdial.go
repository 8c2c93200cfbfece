// Package pgdial is about the hosts of a PostgreSQL address, of which one is the
// primary: how long connecting may take, and which of them is tried first.
package pgdial

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Timeout bounds one attempt to connect to one host, unless the address says less: a
// host that is frozen, or behind a network that swallows packets, holds up the others.
const Timeout = 3 * time.Second

// Hosts remembers which host of an address was connected last. That one is tried first
// from then on: an old primary that is frozen would else cost every new connection its
// timeout. It is safe for concurrent use.
type Hosts struct {
	mu    sync.Mutex          // guards what follows
	last  string              // the network address that was connected last; "": none yet
	found map[string][]string // the addresses that a host name stood for when it was looked up last
}

// Watch makes a configuration's connections known to h, from when the server has
// shown the target_session_attrs that the address asks for. It bounds ConnectTimeout.
func (h *Hosts) Watch(cfg *pgconn.Config) {
	if cfg.ConnectTimeout == 0 || cfg.ConnectTimeout > Timeout {
		cfg.ConnectTimeout = Timeout
	}
	lookup, validate := cfg.LookupFunc, cfg.ValidateConnect
	cfg.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		addrs, err := lookup(ctx, host)
		if err == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.found == nil {
				h.found = map[string][]string{}
			}
			h.found[host] = addrs
		}
		return addrs, err
	}
	cfg.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if validate != nil {
			if err := validate(ctx, conn); err != nil {
				return err
			}
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.last = conn.Conn().RemoteAddr().String()
		return nil
	}
}

// Arrange puts the host that was connected last before the others, whose order stays.
func (h *Hosts) Arrange(cfg *pgconn.Config) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == "" || len(cfg.Fallbacks) == 0 {
		return
	}
	all := append([]*pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}}, cfg.Fallbacks...)
	slices.SortStableFunc(all, func(a, b *pgconn.FallbackConfig) int { return h.rank(a) - h.rank(b) })
	cfg.Host, cfg.Port, cfg.TLSConfig = all[0].Host, all[0].Port, all[0].TLSConfig
	cfg.Fallbacks = all[1:]
}

// rank is 0 for the host that was connected last, and 1 for any other. h.mu is held.
func (h *Hosts) rank(host *pgconn.FallbackConfig) int {
	addrs := h.found[host.Host]
	if addrs == nil {
		addrs = []string{host.Host} // a socket in the file system is not looked up
	}
	for _, addr := range addrs {
		_, at := pgconn.NetworkAddress(addr, host.Port)
		if _, _, err := net.SplitHostPort(addr); err == nil {
			at = addr
		}
		if at == h.last {
			return 0
		}
	}
	return 1
}

// Within is how long connecting may take where every host of a configuration is tried.
func Within(cfg *pgconn.Config) time.Duration {
	return time.Duration(1+len(cfg.Fallbacks)) * cfg.ConnectTimeout
}
