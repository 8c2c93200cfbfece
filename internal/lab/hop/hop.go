// Package hop is the way between a gateway and a logic node inside one process: the
// rules behind a server of internal/rpc, and its client in front, joined by pipes.
// It works in a testing/synctest bubble, and promises nothing to users; tests tell
// the stories of the single process over it too.
package hop

import (
	"context"
	"errors"
	"net"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/pipe"
	"github.com/impart-im/impart/internal/rpc"
)

// Rules are what a logic node serves.
type Rules interface {
	impart.Logic
	impart.Admin
}

// Hop are rules that are reached over gRPC.
type Hop struct {
	*rpc.Client
	server *rpc.Server
	accept *pipe.Listener
	served chan error // gets how serving ended
}

// New starts a node and a client. The rules stay the caller's.
func New(rules Rules) (*Hop, error) {
	server, err := rpc.NewServer(rpc.ServerConfig{Logic: rules, Admin: rules})
	if err != nil {
		return nil, err
	}
	h := &Hop{server: server, accept: pipe.Listen("hop"), served: make(chan error, 1)}
	go func() { h.served <- server.Serve(h.accept) }()
	h.Client, err = rpc.NewClient(rpc.ClientConfig{
		Nodes: []string{"node:1"}, Dial: func(ctx context.Context, _ string) (net.Conn, error) { return h.accept.Dial(ctx) },
	})
	if err != nil {
		return nil, errors.Join(err, server.Close(), <-h.served)
	}
	return h, nil
}

// Close ends both ends. Calls under way are UNAVAILABLE.
func (h *Hop) Close() error {
	return errors.Join(h.Client.Close(), h.server.Close(), <-h.served)
}
