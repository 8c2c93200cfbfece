package gateway

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gobwas/ws"

	"github.com/impart-im/impart/wire"
)

// handshakeTime is how long the answer to a handshake may take to go out.
const handshakeTime = 5 * time.Second

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
	case g.conns.isShut():
		refuse(w, "1", "the server is shutting down")
		return
	}
	if g.count.Add(1) > int64(g.cfg.MaxConns) {
		g.count.Add(-1)
		refuse(w, "5", "too many connections")
		return
	}
	if err := g.upgrade(w, r); err != nil {
		g.count.Add(-1)
		g.log.Debug("a handshake failed", "err", err)
	}
}

// refuse turns a handshake away. The connection ends with it: a client that kept it
// would come back on it, and by no balancer to another gateway.
func refuse(w http.ResponseWriter, seconds, why string) {
	w.Header().Set("Retry-After", seconds)
	w.Header().Set("Connection", "close")
	http.Error(w, why, http.StatusServiceUnavailable)
}

// upgrade makes a connection of a request. Without an error the connection owns
// its place in the count.
func (g *Gateway) upgrade(w http.ResponseWriter, r *http.Request) error {
	upgrader := ws.HTTPUpgrader{
		Timeout:  handshakeTime,
		Protocol: func(name string) bool { return name == wire.Subprotocol },
	}
	nc, rw, handshake, err := upgrader.Upgrade(r, w)
	if err != nil {
		if nc != nil {
			_ = nc.Close()
		}
		return err
	}
	if handshake.Protocol == "" && r.Header.Get("Sec-WebSocket-Protocol") != "" {
		// None of the offered subprotocols is ours; without an offer v1 is meant.
		turnAway(nc, ws.StatusProtocolError, "the subprotocol is "+wire.Subprotocol)
		return errors.New("no subprotocol in common")
	}
	// What arrived together with the handshake is in the handler's buffer, which
	// is given up here.
	early := make([]byte, rw.Reader.Buffered())
	_, _ = io.ReadFull(rw.Reader, early)
	if !g.start(nc, early) {
		turnAway(nc, ws.StatusGoingAway, string(wire.ByeDrain))
		return errors.New("the server is shutting down")
	}
	return nil
}

// start gives the connection its goroutine; false when the gateway is shutting
// down.
func (g *Gateway) start(nc net.Conn, early []byte) bool {
	c := newConn(g, nc)
	return g.conns.accept(c, func() { g.sockets.Go(func() { c.receive(early) }) })
}

// turnAway closes a socket that became no connection.
func turnAway(nc net.Conn, code ws.StatusCode, reason string) {
	_ = nc.SetWriteDeadline(time.Now().Add(leaveTime))
	_, _ = nc.Write(closeFrame(code, reason))
	_ = nc.Close()
}
