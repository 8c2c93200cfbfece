package gateway

import (
	"sync"

	"github.com/impart-im/impart/internal/fault"
)

// flushSize is how many bytes go out in one system call, about.
const flushSize = 64 << 10

// queue holds the frames that wait for one connection's socket. Replies are
// never dropped: whoever makes them waits for room first. Pushes are dropped
// past a bound and replaced by one hint (D15). There is a flushing goroutine
// only while there is something to write.
type queue struct {
	mu        sync.Mutex
	drained   sync.Cond // on mu: bytes went down, or the queue closed
	frames    [][]byte
	bytes     int
	pushes    int  // frames that came by push since the queue was last empty
	pushBytes int  // their bytes
	dropped   bool // pushes were dropped: a hint follows when the queue is empty
	flushing  bool
	finishing bool // nothing is taken any more; close when empty
	closed    bool
}

func (q *queue) init() { q.drained.L = &q.mu }

// add queues a frame that must not be dropped. It reports whether the caller
// has to start the flushing goroutine.
func (q *queue) add(frame []byte) (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.finishing || q.closed {
		return false
	}
	q.append(frame)
	return q.start()
}

// push queues frames that may be dropped, all or none, and returns how many
// were taken.
func (q *queue) push(frames [][]byte, maxFrames, maxBytes int) (taken int, start bool) {
	size := 0
	for _, f := range frames {
		size += len(f)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.finishing || q.closed {
		return 0, false
	}
	full := q.dropped || q.pushes > 0 && (q.pushes+len(frames) > maxFrames || q.pushBytes+size > maxBytes)
	if full && !fault.Planted(fault.QueueUnbounded) {
		q.dropped = true
		return 0, false
	}
	for _, f := range frames {
		q.append(f)
	}
	q.pushes += len(frames)
	q.pushBytes += size
	return len(frames), q.start()
}

// finish queues the last frames and takes nothing after them.
func (q *queue) finish(frames ...[]byte) (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.finishing || q.closed {
		return false
	}
	for _, f := range frames {
		q.append(f)
	}
	q.finishing = true
	q.drained.Broadcast()
	return q.start()
}

// close drops everything.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.frames, q.bytes = nil, 0
	q.drained.Broadcast()
}

// wait blocks while more than limit bytes are queued.
func (q *queue) wait(limit int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.bytes > limit && !q.closed && !q.finishing {
		q.drained.Wait()
	}
}

// waitEmpty blocks until everything is written or nothing more can be.
func (q *queue) waitEmpty() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.flushing && !q.closed {
		q.drained.Wait()
	}
}

// take moves frames for one system call into buf, or returns one large frame as
// it is. hint makes the frame that replaces dropped pushes. With nothing left
// it ends the flushing: more is false, and finished says whether to close.
func (q *queue) take(buf []byte, hint func() []byte) (chunk []byte, more, finished bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		q.stop()
		return nil, false, false
	}
	if len(q.frames) == 0 && q.dropped && !q.finishing {
		q.dropped = false
		q.append(hint())
	}
	if len(q.frames) == 0 {
		q.frames, q.pushes, q.pushBytes = nil, 0, 0
		q.stop()
		return nil, false, q.finishing
	}
	n := 0
	if len(q.frames[0]) >= flushSize/2 {
		chunk, n = q.frames[0], 1
	} else {
		for n < len(q.frames) && len(buf)+len(q.frames[n]) <= flushSize {
			buf = append(buf, q.frames[n]...)
			n++
		}
		chunk = buf
	}
	clear(q.frames[:n])
	q.frames = q.frames[n:]
	q.bytes -= len(chunk)
	if q.pushes > 0 && len(q.frames) == 0 {
		q.pushes, q.pushBytes = 0, 0
	}
	q.drained.Broadcast()
	return chunk, true, false
}

func (q *queue) append(frame []byte) {
	q.frames = append(q.frames, frame)
	q.bytes += len(frame)
}

func (q *queue) start() bool {
	if q.flushing {
		return false
	}
	q.flushing = true
	return true
}

func (q *queue) stop() {
	q.flushing = false
	q.drained.Broadcast()
}
