package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// onInterrupt gives a context that the first signal ends. A second signal ends the
// process, once abandon has cleaned up. stop gives the signals back.
func onInterrupt(ctx context.Context, abandon func()) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 1; ; n++ {
			select {
			case <-signals:
			case <-done:
				return
			}
			cancel()
			if n == 2 {
				abandon()
				os.Exit(exitFailed)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		<-ended
		cancel()
	}
}

// abandon ends our servers as they are and removes what they kept, for there is
// no time to end them well. It says what is left.
func (t *targets) abandon(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.abandoned = true
	for _, p := range t.own {
		p.Abandon()
	}
	t.stores.abandon()
	const what = "interrupted twice: ended without a report"
	if t.folder == "" {
		fmt.Fprintln(w, what+"; what was made on a running server stays there, named bench-…")
		return
	}
	if err := os.RemoveAll(t.folder); err != nil {
		fmt.Fprintf(w, "%s; its folder %s could not be removed: %v\n", what, t.folder, err)
		return
	}
	fmt.Fprintln(w, what+"; its server and its folder are gone")
}
