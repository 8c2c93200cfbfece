// Package pipe is a listener inside this process: its connections are pipes, without
// buffers and without a network. It works in a testing/synctest bubble.
package pipe

import (
	"context"
	"net"
	"sync"
)

// Listener accepts connections that are made in this process.
type Listener struct {
	name  string
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

// Listen makes a listener; the name is for people.
func Listen(name string) *Listener {
	return &Listener{name: name, conns: make(chan net.Conn), done: make(chan struct{})}
}

// Dial connects, and returns once the connection is accepted. [net.ErrClosed] when the
// listener has been closed, or ctx's error when it ends before.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	if err := l.Hand(ctx, there); err != nil {
		return nil, err
	}
	return here, nil
}

// Hand is Dial for who made the pipe: it gives the server its end. The caller keeps it
// if that fails.
func (l *Listener) Hand(ctx context.Context, there net.Conn) error {
	select {
	case l.conns <- there:
		return nil
	case <-l.done:
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]. Connections that were accepted stay. It may be called
// again.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: l.name, Net: "pipe"} }
