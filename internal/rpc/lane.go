package rpc

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/impart-im/impart"
)

// lane is one stream to one node, for one kind of request. Requests that wait while
// a frame is written share the next one; when nothing is being written a request
// leaves at once. I and O are a request and its answer, Q and R frames of them.
// Answers come one by one, each with its place.
type lane[I any, O placed, Q, R any] struct {
	stream grpc.BidiStreamingClient[Q, R]
	pack   func(id uint64, timeout time.Duration, items []*I) *Q
	unpack func(reply *R) []O
	size   func(item *I) int
	shared prometheus.Observer // requests in a frame
	wake   chan struct{}       // a token: there may be something to write

	mu     sync.Mutex // guards the rest
	queue  []*call[I, O]
	items  int // in queue
	bytes  int
	frames map[uint64]*frame[I, O] // written and not answered in full
	last   uint64                  // id of a frame
	err    error                   // why the lane has ended
}

// call is the requests of one caller, who waits for done.
type call[I, O any] struct {
	items    []*I
	bytes    int
	deadline time.Time
	gone     bool // nobody waits any more

	outs     []O
	answered []bool
	missing  int
	err      error
	done     chan struct{} // closed when outs are complete, or err is set
}

// frame is requests that travel together.
type frame[I, O any] struct {
	places  []place[I, O] // of the requests, in their order
	missing int
}

// place is the at-th request of a call.
type place[I, O any] struct {
	call *call[I, O]
	at   int
}

// placed is an answer that names the request it is to.
type placed interface {
	GetBatch() uint64
	GetIndex() uint32
}

// start makes the lane's two goroutines; ended is called when the stream breaks,
// before calls learn of it.
func (l *lane[I, O, Q, R]) start(ctx context.Context, running *sync.WaitGroup, ended func(error)) {
	l.wake, l.frames = make(chan struct{}, 1), map[uint64]*frame[I, O]{}
	running.Go(func() { l.write(ctx) })
	running.Go(func() {
		err := l.read()
		ended(err)
		l.fail(err)
	})
}

// do sends requests in one frame, in their order, and waits for the answers. An
// error that is no [impart.Error] is the stream's or ctx's.
func (l *lane[I, O, Q, R]) do(ctx context.Context, items []*I) ([]O, error) {
	c := &call[I, O]{items: items, outs: make([]O, len(items)), answered: make([]bool, len(items)), missing: len(items), done: make(chan struct{})}
	c.deadline, _ = ctx.Deadline()
	for _, item := range items {
		c.bytes += l.size(item)
	}
	if err := l.enqueue(c); err != nil {
		return nil, err
	}
	select {
	case <-c.done:
		return c.outs, c.err
	case <-ctx.Done():
		l.mu.Lock()
		c.gone = true
		l.mu.Unlock()
		return nil, ctx.Err()
	}
}

func (l *lane[I, O, Q, R]) enqueue(c *call[I, O]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if len(l.queue) > 0 && (l.items+len(c.items) > maxQueued || l.bytes+c.bytes > maxQueuedBytes) {
		err := impart.Errorf(impart.Overloaded, "%d requests wait for the logic node; try again a little later", l.items)
		err.RetryAfter = overloadedRetry
		return err
	}
	l.queue = append(l.queue, c)
	l.items, l.bytes = l.items+len(c.items), l.bytes+c.bytes
	signal(l.wake)
	return nil
}

func signal(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// write sends frames for as long as calls wait.
func (l *lane[I, O, Q, R]) write(ctx context.Context) {
	for {
		select {
		case <-l.wake:
		case <-ctx.Done():
			return
		}
		for {
			// Callers that were woken together are ready to run: they get to queue first.
			// When there are none this costs nothing.
			runtime.Gosched()
			next := l.take()
			if next == nil {
				break
			}
			if l.stream.Send(next) != nil {
				return // the reader learns why
			}
		}
	}
}

// take is the next frame: whole calls, as many as wait and fit; nil when nothing
// waits, or as many frames as may be are under way.
func (l *lane[I, O, Q, R]) take() *Q {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.frames) >= maxFrames || l.err != nil {
		return nil
	}
	f := &frame[I, O]{}
	var items []*I
	var until time.Time
	bytes, n := 0, 0
	for _, c := range l.queue {
		if len(items) > 0 && (len(items)+len(c.items) > maxFrameItems || bytes+c.bytes > maxFrameBytes) {
			break
		}
		n++
		l.items, l.bytes = l.items-len(c.items), l.bytes-c.bytes
		if c.gone {
			continue
		}
		for at := range c.items {
			f.places = append(f.places, place[I, O]{c, at})
		}
		items, bytes = append(items, c.items...), bytes+c.bytes
		if c.deadline.After(until) {
			until = c.deadline
		}
	}
	left := copy(l.queue, l.queue[n:])
	clear(l.queue[left:])
	l.queue = l.queue[:left]
	if len(items) == 0 {
		return nil
	}
	l.last++
	f.missing = len(items)
	l.frames[l.last] = f
	l.shared.Observe(float64(len(items)))
	return l.pack(l.last, max(time.Until(until), time.Millisecond), items)
}

// read takes answers until the stream ends.
func (l *lane[I, O, Q, R]) read() error {
	for {
		reply, err := l.stream.Recv()
		if err != nil {
			return err
		}
		if err := l.settle(l.unpack(reply)); err != nil {
			return err
		}
	}
}

// settle hands answers to their callers.
func (l *lane[I, O, Q, R]) settle(outs []O) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, out := range outs {
		if err := l.place(out); err != nil {
			return err
		}
	}
	if len(l.queue) > 0 && len(l.frames) < maxFrames {
		signal(l.wake)
	}
	return nil
}

// place hands one answer to its caller. l.mu is held.
func (l *lane[I, O, Q, R]) place(out O) error {
	id, index := out.GetBatch(), int(out.GetIndex())
	f := l.frames[id]
	if f == nil || index >= len(f.places) {
		return fmt.Errorf("rpc: an answer to request %d of frame %d, which waits for none", index, id)
	}
	p := f.places[index]
	if p.call.answered[p.at] {
		return fmt.Errorf("rpc: request %d of frame %d was answered twice", index, id)
	}
	p.call.outs[p.at], p.call.answered[p.at] = out, true
	if p.call.missing--; p.call.missing == 0 {
		close(p.call.done)
	}
	if f.missing--; f.missing == 0 {
		delete(l.frames, id)
	}
	return nil
}

// fail ends the lane: every call that waits gets err.
func (l *lane[I, O, Q, R]) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = err
	for _, c := range l.queue {
		c.fail(err)
	}
	for _, f := range l.frames {
		for _, p := range f.places {
			p.call.fail(err)
		}
	}
	l.queue, l.frames = nil, nil
}

// fail ends a call that is not answered in full. The lane's mu is held.
func (c *call[I, O]) fail(err error) {
	if c.missing > 0 && c.err == nil {
		c.err = err
		close(c.done)
	}
}
