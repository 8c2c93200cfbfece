package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
	"github.com/prometheus/client_golang/prometheus"
)

// logDropped counts lines of this process's log.
var logDropped = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "im_log_dropped_total", Help: "Lines of the log that were dropped, because whoever reads it had stopped.",
})

// newLogger writes structured lines to f. What has been logged is written once close
// returns, if f takes it.
func newLogger(c *config, f *os.File) (log *slog.Logger, closeLog func()) {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	w := newLogWriter(f)
	terminal := isatty.IsTerminal(f.Fd())
	switch {
	case c.LogFormat == "json":
		return slog.New(slog.NewJSONHandler(w, options)), w.close
	case c.LogFormat == "auto" && terminal:
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: c.LogLevel, TimeFormat: "15:04:05.000", NoColor: os.Getenv("NO_COLOR") != ""})), w.close
	default:
		return slog.New(slog.NewTextHandler(w, options)), w.close
	}
}

const (
	// logPatience is how long one line may hold up whoever logs it. From then on nobody
	// waits, until everything that waits is written.
	logPatience = 250 * time.Millisecond
	// logLines is how many lines may wait; past it they are dropped, and counted.
	logLines = 1024
	// logFlush is how long the end of the process waits for the rest.
	logFlush = 500 * time.Millisecond
)

// logWriter keeps a reader of the log that has stopped (a full pipe, a terminal that
// is held, a slow disk) from stopping the server. As long as lines are taken each is
// written before Write returns, so that a crash loses none.
type logWriter struct {
	to      io.Writer
	lines   chan []byte
	written chan struct{} // has a token once a line was written
	ended   chan struct{}
	stalled atomic.Bool  // nobody waits for what is written
	dropped atomic.Int64 // since that was told last

	mu     sync.Mutex // held by who writes
	closed bool
}

func newLogWriter(to io.Writer) *logWriter {
	w := &logWriter{to: to, lines: make(chan []byte, logLines), written: make(chan struct{}, 1), ended: make(chan struct{})}
	go w.run()
	return w
}

// run writes the lines, until there will be no more.
func (w *logWriter) run() {
	defer close(w.ended)
	for line := range w.lines {
		_, _ = w.to.Write(line) // there is nowhere to say so
		if len(w.lines) == 0 {
			if n := w.dropped.Swap(0); n > 0 {
				fmt.Fprintf(w.to, "time=%s level=WARN msg=\"lines of this log were dropped: whoever reads it stopped for a while\" lines=%d\n",
					time.Now().Format(time.RFC3339Nano), n)
			}
			w.stalled.Store(false)
		}
		select {
		case w.written <- struct{}{}:
		default:
		}
	}
}

// Write never fails: a line that finds no room is counted.
func (w *logWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return len(p), nil
	}
	select {
	case <-w.written: // of a line that was not waited for
	default:
	}
	select {
	case w.lines <- bytes.Clone(p):
	default:
		w.dropped.Add(1)
		logDropped.Inc()
		return len(p), nil
	}
	if w.stalled.Load() {
		return len(p), nil
	}
	patience := time.NewTimer(logPatience)
	defer patience.Stop()
	select {
	case <-w.written:
	case <-patience.C:
		w.stalled.Store(true)
	}
	return len(p), nil
}

// close waits for what is left to be written, but not for long.
func (w *logWriter) close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.lines)
	}
	w.mu.Unlock()
	select {
	case <-w.ended:
	case <-time.After(logFlush):
	}
}
