package pipe

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

func TestAListenerTakesConnectionsUntilItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Listen("echo")
		go func() {
			nc, err := l.Accept()
			if err == nil {
				_, _ = io.Copy(nc, nc)
				_ = nc.Close()
			}
		}()
		nc, err := l.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(nc, "a"); err != nil {
			t.Fatal(err)
		}
		var got [1]byte
		if _, err := io.ReadFull(nc, got[:]); err != nil || got[0] != 'a' {
			t.Errorf("%q comes back: %v", got, err)
		}
		// Nobody accepts the next one: it waits as long as its caller.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a connection that nobody accepts: %v", err)
		}
		for range 2 {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := l.Dial(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a connection to a closed listener: %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a closed listener accepts: %v", err)
		}
		_ = nc.Close()
	})
}
