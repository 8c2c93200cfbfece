package gateway

import (
	"sync"

	"github.com/impart-im/impart/internal/fault"
)

// flushSize is how many bytes go out in one system call, about.
const flushSize = 64 << 10

// queue holds the frames that wait for one connection's socket. Replies are
// never dropped: whoever makes them waits for room first. Pushes are dropped
// past a bound and replaced by one hint (D15). Of control frames only the newest
// of a kind waits. There is a flushing goroutine only while there is something
// to write.
type queue struct {
	mu        sync.Mutex
	drained   sync.Cond // on mu: bytes went down, or the queue closed
	frames    []queued
	bytes     int    // of frames
	pushes    int    // how many of them came by push
	pushBytes int    // their bytes
	ping      bool   // a ping waits; it goes before the frames
	pong      []byte // likewise; a newer one replaces it (RFC 6455, 5.5.3)
	dropped   bool   // pushes were dropped: a hint follows when the queue is empty
	flushing  bool
	finishing bool // nothing is taken any more; close when empty
	closed    bool
}

// queued is a frame that waits.
type queued struct {
	bytes []byte
	push  bool
}

func (q *queue) init() { q.drained.L = &q.mu }

// add queues a frame that must not be dropped. Like the other methods that
// queue something, it reports whether the caller has to start the flushing
// goroutine.
func (q *queue) add(frame []byte) (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended() {
		return false
	}
	q.append(frame, false)
	return q.start()
}

// push queues frames that may be dropped, all or none.
func (q *queue) push(frames [][]byte, maxFrames, maxBytes int) (taken, start bool) {
	size := 0
	for _, f := range frames {
		size += len(f)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended() {
		return false, false
	}
	full := q.dropped || q.pushes > 0 && (q.pushes+len(frames) > maxFrames || q.pushBytes+size > maxBytes)
	if full && !fault.Planted(fault.QueueUnbounded) {
		q.dropped = true
		return false, false
	}
	for _, f := range frames {
		q.append(f, true)
	}
	q.pushes += len(frames)
	q.pushBytes += size
	return true, q.start()
}

// addPing queues a ping, unless one waits already.
func (q *queue) addPing() (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended() {
		return false
	}
	q.ping = true
	return q.start()
}

// addPong queues a pong in place of one that still waits: a flood of pings costs
// no more than one.
func (q *queue) addPong(frame []byte) (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended() {
		return false
	}
	q.pong = frame
	return q.start()
}

// finish queues the last frames and takes nothing after them.
func (q *queue) finish(frames ...[]byte) (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended() {
		return false
	}
	for _, f := range frames {
		q.append(f, false)
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
	q.frames, q.bytes, q.pong = nil, 0, nil
	q.drained.Broadcast()
}

// isOver reports whether more than limit bytes are queued.
func (q *queue) isOver(limit int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes > limit
}

// wait blocks while more than limit bytes are queued.
func (q *queue) wait(limit int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.bytes > limit && !q.ended() {
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

// take moves what goes out in one system call into buf, or returns a frame that
// is too large for it as it is. hint makes the frame that replaces dropped
// pushes. With nothing left it ends the flushing: more is false, and finished
// says whether to close.
func (q *queue) take(buf []byte, hint func() []byte) (chunk []byte, more, finished bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.frames) == 0 && q.dropped && !q.ended() {
		q.dropped = false
		q.append(hint(), false)
	}
	buf = q.takeControl(buf)
	n := 0
	for n < len(q.frames) && len(buf)+len(q.frames[n].bytes) <= flushSize {
		buf = append(buf, q.frames[n].bytes...)
		n++
	}
	if chunk = buf; len(buf) == 0 && len(q.frames) > 0 {
		chunk, n = q.frames[0].bytes, 1
	}
	if len(chunk) == 0 || q.closed {
		q.flushing = false
		q.drained.Broadcast()
		return nil, false, q.finishing && !q.closed
	}
	q.drop(n)
	q.drained.Broadcast()
	return chunk, true, false
}

func (q *queue) takeControl(buf []byte) []byte {
	if q.ping {
		buf = append(buf, pingFrame...)
	}
	buf = append(buf, q.pong...)
	q.ping, q.pong = false, nil
	return buf
}

// drop forgets the first n frames.
func (q *queue) drop(n int) {
	for _, f := range q.frames[:n] {
		q.bytes -= len(f.bytes)
		if f.push {
			q.pushes--
			q.pushBytes -= len(f.bytes)
		}
	}
	clear(q.frames[:n])
	if q.frames = q.frames[n:]; len(q.frames) == 0 {
		q.frames = nil
	}
}

// ended reports whether the queue takes nothing any more.
func (q *queue) ended() bool { return q.finishing || q.closed }

func (q *queue) append(frame []byte, push bool) {
	q.frames = append(q.frames, queued{frame, push})
	q.bytes += len(frame)
}

func (q *queue) start() bool {
	if q.flushing {
		return false
	}
	q.flushing = true
	return true
}
