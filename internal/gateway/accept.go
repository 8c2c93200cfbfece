package gateway

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gobwas/ws"

	"github.com/impart-im/impart/wire"
)

// ServeHTTP upgrades a request to a connection and returns; the connection lives
// on in its own goroutine, so that an idle one does not hold the handler's.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "use GET with a WebSocket upgrade", http.StatusMethodNotAllowed)
		return
	case r.URL.RawQuery != "" && strings.Contains(strings.ToLower(r.URL.RawQuery), "token="):
		http.Error(w, "a token in the address would end up in logs: send it in the hello frame", http.StatusBadRequest)
		return
	case g.cfg.Allow != nil && !g.cfg.Allow(r):
		http.Error(w, "this origin may not connect: add it to IM_ORIGINS", http.StatusForbidden)
		return
	case g.draining.Load():
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the server is shutting down", http.StatusServiceUnavailable)
		return
	}
	if g.count.Add(1) > int64(g.cfg.MaxConns) {
		g.count.Add(-1)
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many connections", http.StatusServiceUnavailable)
		return
	}
	upgrader := ws.HTTPUpgrader{
		Timeout:  5 * time.Second,
		Protocol: func(name string) bool { return name == wire.Subprotocol },
	}
	nc, rw, handshake, err := upgrader.Upgrade(r, w)
	if err != nil {
		g.count.Add(-1)
		if nc != nil {
			_ = nc.Close()
		}
		return
	}
	if handshake.Protocol == "" && r.Header.Get("Sec-WebSocket-Protocol") != "" {
		// None of the offered subprotocols is ours; without an offer v1 is meant.
		_, _ = nc.Write(closeFrame(ws.StatusProtocolError, "the subprotocol is "+wire.Subprotocol))
		_ = nc.Close()
		g.count.Add(-1)
		return
	}
	// What arrived together with the handshake is in the handler's buffer, which
	// is given up here.
	early := make([]byte, rw.Reader.Buffered())
	_, _ = io.ReadFull(rw.Reader, early)
	c := newConn(g, nc)
	g.conns.accept(c)
	if g.ctx.Err() != nil { // closed since the check above
		c.cut()
	}
	g.sockets.Go(func() { c.receive(early) })
}
