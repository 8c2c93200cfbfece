package conformance

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart/internal/store"
)

// held is a commit that waits for its story.
type held struct {
	w       *world
	reached chan struct{}
	free    chan error
	once    sync.Once
	held    atomic.Int64 // commits that have come to it, with holdAll
}

// hold holds the next commit of the store; those after it pass.
func (w *world) hold() *held {
	h := &held{w: w, reached: make(chan struct{}), free: make(chan error, 1)}
	var taken atomic.Bool
	w.OnCommit(func() error {
		if taken.Swap(true) {
			return nil
		}
		close(h.reached)
		return <-h.free
	}, nil)
	w.t.Cleanup(func() { h.release(nil) })
	return h
}

// holdAll holds every commit of the store until it is released.
func (w *world) holdAll() *held {
	h := &held{w: w, reached: make(chan struct{}), free: make(chan error, 1)}
	released := make(chan struct{})
	w.OnCommit(func() error {
		if h.held.Add(1) == 1 {
			close(h.reached)
			err := <-h.free
			close(released)
			return err
		}
		<-released
		return nil
	}, nil)
	w.t.Cleanup(func() { h.release(nil) })
	return h
}

// spin lets others run, until the story has taken too long for what.
func (w *world) spin(what string) {
	w.t.Helper()
	if w.ctx.Err() != nil {
		w.t.Fatalf("it has taken too long: %s", what)
	}
	runtime.Gosched()
}

// wait returns when the commit has come to its hold.
func (h *held) wait() {
	h.w.t.Helper()
	select {
	case <-h.reached:
	case <-h.w.ctx.Done():
		h.w.t.Fatal("no commit came to its hold: nothing was written, or before was not called")
	}
}

// release lets the commit go on, or fails it.
func (h *held) release(err error) { h.once.Do(func() { h.free <- err }) }

// call is an append that is under way.
type call struct {
	w    *world
	done chan struct{}
	got  store.Appended // once done is closed
}

// sends appends an item and does not wait for the answer.
func (w *world) sends(a store.Append) *call {
	c, s := &call{w: w, done: make(chan struct{})}, w.Store
	go func() {
		defer close(c.done)
		c.got = s.Append(w.ctx, []store.Append{a})[0]
	}()
	return c
}

// answerGrace is how long a story waits for an answer that must not come: a
// store that gives one has to be caught on a busy machine too.
const answerGrace = 50 * time.Millisecond

// unanswered checks that there is no answer yet.
func (c *call) unanswered() {
	c.w.t.Helper()
	select {
	case <-c.done:
		c.w.t.Errorf("answered before the commit: %+v", c.got)
	case <-time.After(answerGrace):
	}
}

// answer waits for the answer.
func (c *call) answer() store.Appended {
	c.w.t.Helper()
	select {
	case <-c.done:
	case <-c.w.ctx.Done():
		c.w.t.Fatal("an append was never answered")
	}
	return c.got
}

// failOnce fails the next commit, before or after it took effect.
func (w *world) failOnce(after bool) {
	var taken atomic.Bool
	fail := func() error {
		if taken.Swap(true) {
			return nil
		}
		return errors.New("the disk is on fire")
	}
	if after {
		w.OnCommit(nil, fail)
	} else {
		w.OnCommit(fail, nil)
	}
}

// crash goes on with the data as a crash would leave them.
func (w *world) crash() {
	w.t.Helper()
	old := w.Store
	w.Store = w.Crash(w.t)
	w.t.Cleanup(func() { _ = old.Close() }) // what the old one says no longer matters
}
