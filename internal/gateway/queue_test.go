package gateway

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobwas/ws"

	"github.com/impart-im/impart"
)

func noHint() []byte { return []byte("hint") }

// taken is everything that a flush takes, as text.
func taken(q *queue) string {
	var all []byte
	for {
		chunk, more, _ := q.take(nil, noHint)
		if !more {
			return string(all)
		}
		all = append(all, chunk...)
	}
}

func newQueue() *queue {
	q := &queue{}
	q.init()
	return q
}

func frames(texts ...string) [][]byte {
	var all [][]byte
	for _, s := range texts {
		all = append(all, []byte(s))
	}
	return all
}

// Pushes are bounded by what waits, not by what has gone out before.
func TestOnlyWaitingPushesCount(t *testing.T) {
	q := newQueue()
	large := bytes.Repeat([]byte("x"), flushSize)
	for i := range 100 {
		q.add(large) // the queue is never empty
		if taken, _ := q.push(frames("push"), 2, 100); !taken {
			t.Fatalf("push %d was dropped", i)
		}
		if i > 0 {
			q.take(nil, noHint) // the push before and, as it is, the large frame
		}
		q.take(nil, noHint)
	}
}

func TestPushesPastTheBoundBecomeOneHint(t *testing.T) {
	for _, c := range []struct {
		name           string
		frames, bytes  int
		first, refused [][]byte
	}{
		{"frames", 2, 100, frames("a", "b"), frames("c")},
		{"bytes", 100, 4, frames("aa", "bb"), frames("c")},
		{"all or none", 3, 100, frames("a", "b"), frames("c", "d")},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newQueue()
			if taken, start := q.push(c.first, c.frames, c.bytes); !taken || !start {
				t.Fatal("the first pushes were dropped")
			}
			if taken, _ := q.push(c.refused, c.frames, c.bytes); taken {
				t.Error("the bound does not hold")
			}
			q.take(nil, noHint)
			if taken, _ := q.push(frames("later"), c.frames, c.bytes); taken {
				t.Error("a push went out before the hint")
			}
			q.add([]byte("reply"))
			if got := taken(q); got != "replyhint" {
				t.Errorf("then came %q", got)
			}
			if taken, _ := q.push(frames("after"), c.frames, c.bytes); !taken {
				t.Error("after the hint pushes are dropped still")
			}
		})
	}
	q := newQueue()
	if taken, _ := q.push(frames("one that is larger than the bound"), 1, 4); !taken {
		t.Error("an empty queue takes no large event")
	}
}

func TestOfControlFramesTheNewestWaits(t *testing.T) {
	q := newQueue()
	q.add([]byte("reply"))
	for i := range 100 {
		q.addPing()
		q.addPong(pongFrame(fmt.Append(nil, i)))
	}
	if got, want := taken(q), string(pingFrame)+string(pongFrame([]byte("99")))+"reply"; got != want {
		t.Errorf("%q went out, want %q", got, want)
	}
	if start := q.addPong(pongFrame(nil)); !start || taken(q) != string(pongFrame(nil)) {
		t.Error("a pong alone does not go out")
	}
	if start := q.addPing(); !start || taken(q) != string(pingFrame) {
		t.Error("a ping alone does not go out")
	}
}

func TestAFinishedQueueTakesNothing(t *testing.T) {
	for name, end := range map[string]func(*queue){"finished": func(q *queue) { q.finish(frames("bye")...) }, "closed": (*queue).close} {
		q := newQueue()
		q.add([]byte("reply"))
		q.push(frames("p"), 1, 1)
		q.push(frames("too much"), 1, 1)
		end(q)
		q.wait(0)
		q.add([]byte("x"))
		q.push(frames("x"), 100, 100)
		q.addPing()
		q.addPong([]byte("x"))
		q.finish([]byte("x"))
		want := map[string]string{"finished": "replypbye", "closed": ""}[name]
		if got := taken(q); got != want {
			t.Errorf("%s: %q went out, want %q", name, got, want)
		}
		if _, _, finished := q.take(nil, noHint); finished != (name == "finished") {
			t.Errorf("%s: finished is %v", name, finished)
		}
	}
}

// waiting is how many frames and bytes wait for the client's socket.
func (cl *client) waiting() (frames, bytes int) {
	synctest.Wait()
	for _, c := range cl.w.g.conns.all() {
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		frames, bytes = frames+len(c.out.frames), bytes+c.out.bytes
	}
	return frames, bytes
}

// Someone who sends pings and reads no pongs costs one of them.
func TestAFloodOfPingsCostsNoMemory(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana := w.connect("u-ana", "d")
		<-ana.gate
		for i := range 2000 {
			ana.write(ws.NewPingFrame(fmt.Append(nil, i)))
		}
		if frames, _ := ana.waiting(); frames > 1 {
			t.Errorf("%d frames wait", frames)
		}
		ana.gate <- struct{}{}
		ana.wants()
	})
}

// Many requests whose answers are large, from a client that reads none: the
// answers are not made before there is room.
func TestAnswersWaitForTheirReader(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana := w.connect("u-ana", "d")
		for i := range 10 {
			ana.says("c-ab", fmt.Sprint("m", i), strings.Repeat("x", 50_000))
		}
		<-ana.gate
		for i := range 50 {
			ana.send(`{"t":"sync","rid":"%d","conv":"c-ab","after":0}`, i)
		}
		if _, bytes := ana.waiting(); bytes > 2*maxUnwritten {
			t.Errorf("%d bytes wait", bytes)
		}
		ana.gate <- struct{}{}
		if pages := ana.only("synced"); len(pages) != 50 {
			t.Errorf("%d of 50 were answered", len(pages))
		}
	})
}

// One who is behind in many conversations is pinged once a sweep.
func TestHintsPingOnce(t *testing.T) {
	inWorld(t, func(c *Config) { c.Heartbeat, c.Ladder = time.Hour, noRetry }, func(w *world) {
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		for i := range 20 {
			w.conversation(conversationOf(i), "u-ana", "u-ben")
			ana.says(string(conversationOf(i)), fmt.Sprint("m", i), "hi")
		}
		ben.take()
		<-ben.gate
		time.Sleep(w.g.cfg.Sweep)
		ben.gate <- struct{}{}
		if hints := ben.only("hint"); len(hints) != 20 {
			t.Errorf("%d hints", len(hints))
		}
		if ben.pings > 2 {
			t.Errorf("%d pings", ben.pings)
		}
	})
}

func conversationOf(i int) impart.ConvID { return impart.ConvID(fmt.Sprint("c-", i)) }
