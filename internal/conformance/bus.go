package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
)

// soon is how long a message may take, on a machine that does much else. Only
// the package's own tests change it.
var soon = time.Minute

// quietFor is how long a story listens for what must not come.
const quietFor = 300 * time.Millisecond

// BusSubject is one bus under test. The suite closes what it has.
type BusSubject struct {
	Bus bus.Bus
	// Peers are the buses of other nodes of the same deployment; none where there can
	// be none.
	Peers []bus.Bus
	// Outlive are goroutines that are left for a while when all of them are closed, as
	// those of a client library.
	Outlive []goleak.Option
}

// Bus runs the suite of [bus.Bus]. open gives a fresh bus without subscribers
// for each subtest. A message may be lost on a bad day; the suite's days are good.
func Bus(t *testing.T, open func(t *testing.T) BusSubject) {
	for _, s := range busStories {
		t.Run(s.name, func(t *testing.T) {
			leaks := goleak.IgnoreCurrent()
			b := &line{t: t, ctx: t.Context(), BusSubject: open(t)}
			s.tell(b)
			for _, end := range b.ends() {
				if err := end.Close(); err != nil {
					t.Errorf("closing the bus: %v", err)
				}
			}
			goleak.VerifyNone(t, append(b.Outlive, leaks)...)
		})
	}
}

// line is one bus with the words that its stories are told in.
type line struct {
	BusSubject
	t   *testing.T
	ctx context.Context
}

// ends are the nodes' buses.
func (l *line) ends() []bus.Bus { return append([]bus.Bus{l.Bus}, l.Peers...) }

// ear is a subscriber that remembers what it heard.
type ear struct {
	l       *line
	cancel  func()
	mu      sync.Mutex // guards what follows
	heard   []bus.Message
	changed chan struct{} // closed and replaced whenever heard grows
}

// listen subscribes to a bus; first is called for each message before it is remembered.
func (l *line) listen(b bus.Bus, first func(bus.Message)) *ear {
	e := &ear{l: l, changed: make(chan struct{})}
	e.cancel = b.Subscribe(func(m bus.Message) {
		if first != nil {
			first(m)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.heard = append(e.heard, m)
		close(e.changed)
		e.changed = make(chan struct{})
	})
	return e
}

// next is closed when one more message has been heard.
func (e *ear) next() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changed
}

// until waits until what was heard satisfies done, and gives a copy of it.
func (e *ear) until(what string, done func(heard []bus.Message) bool) []bus.Message {
	e.l.t.Helper()
	for deadline := time.After(soon); ; {
		e.mu.Lock()
		n, changed := len(e.heard), e.changed
		if done(e.heard) {
			defer e.mu.Unlock()
			return slices.Clone(e.heard) // only now: a copy for each message would take longer than the messages
		}
		e.mu.Unlock()
		select {
		case <-changed:
		case <-deadline:
			e.l.t.Fatalf("%s: heard %d messages, and not what was wanted", what, n)
		}
	}
}

// hears waits for n messages.
func (e *ear) hears(n int) []bus.Message {
	e.l.t.Helper()
	return e.until(fmt.Sprintf("waiting for %d messages", n), func(heard []bus.Message) bool { return len(heard) >= n })
}

// hearsLast waits for a wake of conv.
func (e *ear) hearsLast(conv impart.ConvID) []bus.Message {
	e.l.t.Helper()
	return e.until("waiting for "+string(conv), func(heard []bus.Message) bool {
		return slices.ContainsFunc(heard, func(m bus.Message) bool { return m.Conv == conv })
	})
}

func wake(conv impart.ConvID, head impart.Seq) bus.Message {
	return bus.Message{Kind: bus.Wake, Conv: conv, From: head, Head: head}
}

// about are the messages about a conversation, or with "" about none, in their order;
// what is for everyone has no place in it, and comes last.
func about(conv impart.ConvID, messages []bus.Message) []bus.Message {
	var out, everyone []bus.Message
	for _, m := range messages {
		switch {
		case m.Conv != conv:
		case m.Everyone:
			everyone = append(everyone, m)
		default:
			out = append(out, m)
		}
	}
	return append(out, everyone...)
}

// wakes are n wakes from head on.
func wakes(head, n int) []bus.Message {
	var out []bus.Message
	for i := range n {
		out = append(out, wake("c", impart.Seq(head+i)))
	}
	return out
}

var busStories = []struct {
	name string
	tell func(l *line)
}{
	{"everybody hears every field of every message", func(l *line) {
		messages := []bus.Message{
			{Kind: bus.Wake, Conv: "c 𝔘:'\"\\", From: 3, Head: impart.MaxNumber, Members: 4},
			{Kind: bus.Wake, Conv: "c", From: 1, Head: 2, Everyone: true},
			{Kind: bus.Receipt, Conv: "c", User: "ana ", Device: "phone", Session: 1 << 40, Delivered: 7, Read: 5, Epoch: 1_700_000_000_000},
			{Kind: bus.Typing, Conv: "c", User: "ana"},
			{Kind: bus.Takeover, User: "ana", Device: "phone", Session: 9},
			{Kind: bus.Revoked, User: "ben", At: 1_700_000_000_123},
			{Kind: bus.Revoked, User: "cy"},
			{Kind: bus.EpochRaised, Epoch: 2},
		}
		var ears []*ear
		for _, end := range l.ends() {
			ears = append(ears, l.listen(end, nil), l.listen(end, nil))
		}
		l.Bus.Publish(l.ctx, slices.Clone(messages)...)
		for _, e := range ears {
			heard := e.hears(len(messages))
			for _, conv := range []impart.ConvID{"", "c", messages[0].Conv} {
				if diff := cmp.Diff(about(conv, messages), about(conv, heard)); diff != "" {
					l.t.Errorf("heard (-want +got):\n%s", diff)
				}
			}
			e.cancel()
		}
	}},
	{"messages come in the order in which they were published", func(l *line) {
		var ears []*ear
		for _, end := range l.ends() {
			ears = append(ears, l.listen(end, nil))
		}
		const n = 500
		for i := impart.Seq(0); i < n; i += 5 {
			l.Bus.Publish(l.ctx, wake("c", i), wake("c", i+1), wake("c", i+2))
			l.Bus.Publish(l.ctx, wake("c", i+3))
			l.Bus.Publish(l.ctx)
			l.Bus.Publish(l.ctx, wake("c", i+4))
		}
		for _, e := range ears {
			for i, m := range e.hears(n) {
				if m.Head != impart.Seq(i) {
					l.t.Fatalf("message %d is %+v", i, m)
				}
			}
			e.cancel()
		}
	}},
	{"publishers at once keep each its own order", func(l *line) {
		const publishers, each = 5, 100
		e := l.listen(l.Bus, nil)
		var wg sync.WaitGroup
		for i := range publishers {
			from := l.ends()[i%len(l.ends())]
			wg.Go(func() {
				for j := range each {
					from.Publish(l.ctx, wake(ids(i)[0], impart.Seq(j)))
				}
			})
		}
		wg.Wait()
		next := map[impart.ConvID]impart.Seq{}
		for _, m := range e.hears(publishers * each) {
			if m.Head != next[m.Conv] {
				l.t.Fatalf("%s: %d came when %d was next", m.Conv, m.Head, next[m.Conv])
			}
			next[m.Conv]++
		}
		e.cancel()
	}},
	{"what any node publishes is heard once by every node", func(l *line) {
		const each = 50
		var ears []*ear
		for _, end := range l.ends() {
			ears = append(ears, l.listen(end, nil))
		}
		var wg sync.WaitGroup
		for i, end := range l.ends() {
			wg.Go(func() {
				for j := range each {
					end.Publish(l.ctx, wake(ids(i)[0], impart.Seq(j)))
				}
				end.Publish(l.ctx, bus.Message{Kind: bus.Typing, Conv: ids(i)[0], User: "last"})
			})
		}
		wg.Wait()
		for _, e := range ears {
			count := map[bus.Message]int{}
			last := len(l.ends())
			heard := e.until("waiting for the last message of every node", func(heard []bus.Message) bool {
				n := 0
				for i := range heard {
					if heard[i].Kind == bus.Typing {
						n++
					}
				}
				return n == last
			})
			for _, m := range heard {
				if count[m]++; count[m] > 1 {
					l.t.Errorf("%+v was heard twice", m)
				}
			}
			if len(count) != last*(each+1) {
				l.t.Errorf("heard %d different messages of %d", len(count), last*(each+1))
			}
			e.cancel()
		}
	}},
	{"a subscriber is called by one goroutine at a time", func(l *line) {
		var inside atomic.Bool
		var calls atomic.Int32
		second := make(chan struct{}, 1)
		e := l.listen(l.Bus, func(bus.Message) {
			if inside.Swap(true) {
				select {
				case second <- struct{}{}:
				default:
				}
			}
			if calls.Add(1) <= 20 { // long enough for another to come in, if it may
				select {
				case <-second:
					l.t.Error("the subscriber was called while it was running")
				case <-time.After(time.Millisecond):
				}
			}
			inside.Store(false)
		})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100 {
					l.Bus.Publish(l.ctx, wake("c", 1))
				}
			})
		}
		wg.Wait()
		e.hears(400)
		e.cancel()
	}},
	{"who has cancelled hears nothing more, and the others go on", func(l *line) {
		gone, stays := l.listen(l.Bus, nil), l.listen(l.Bus, nil)
		l.Bus.Publish(l.ctx, wake("c-1", 1))
		gone.hears(1)
		stays.hears(1)
		gone.cancel()
		quiet := gone.next()
		for i := range impart.Seq(100) {
			l.Bus.Publish(l.ctx, wake("c-2", i))
		}
		stays.hears(101)
		select {
		case <-quiet:
			l.t.Error("it was told more after it had cancelled")
		case <-time.After(quietFor):
		}
		stays.cancel()
	}},
	{"a slow subscriber holds up nobody and is told what it missed", func(l *line) {
		const rounds, each = 60, 1000
		release := make(chan struct{})
		slow := l.listen(l.Bus, func(bus.Message) { <-release })
		fast := l.listen(l.Bus, nil)
		published := make(chan struct{})
		go func() {
			defer close(published)
			for i := range rounds {
				l.Bus.Publish(l.ctx, wakes(i*each, each)...)
				fast.hears((i + 1) * each)
			}
		}()
		select {
		case <-published:
		case <-time.After(soon):
			l.t.Error("the publisher waits for a slow subscriber")
		}
		close(release)
		<-published
		l.Bus.Publish(l.ctx, wake("last", 1))
		heard := slow.hearsLast("last")
		missed := slices.IndexFunc(heard, func(m bus.Message) bool { return m.Kind == bus.Missed })
		if missed < 0 {
			l.t.Errorf("heard %d of %d messages and was not told that any are missing", len(heard)-1, rounds*each)
		}
		if len(heard) > rounds*each/2 {
			l.t.Errorf("%d messages were kept for a subscriber that took none: no bound", len(heard))
		}
		for _, m := range fast.hearsLast("last") {
			if m.Kind == bus.Missed {
				l.t.Error("a subscriber that keeps up was told that it missed something")
			}
		}
		slow.cancel()
		fast.cancel()
	}},
	{"what comes after a gap is heard after it", func(l *line) {
		const rounds, each = 60, 1000
		release := make(chan struct{})
		slow := l.listen(l.Bus, func(bus.Message) { <-release })
		for i := range rounds {
			l.Bus.Publish(l.ctx, wakes(i*each, each)...)
		}
		close(release)
		l.Bus.Publish(l.ctx, wake("last", rounds*each))
		heard := slow.hearsLast("last")
		// Between two messages that are not neighbours there is a Missed.
		for i := 1; i < len(heard); i++ {
			before, now := heard[i-1], heard[i]
			if before.Kind == bus.Wake && now.Kind == bus.Wake && now.Head != before.Head+1 {
				l.t.Errorf("%d came after %d without a word about what is missing", now.Head, before.Head)
			}
		}
		slow.cancel()
	}},
	{"a subscriber may publish", func(l *line) {
		e := l.listen(l.Bus, func(m bus.Message) {
			if m.Conv == "question" {
				l.Bus.Publish(l.ctx, wake("answer", m.Head))
			}
		})
		var asked sync.WaitGroup
		asked.Go(func() {
			for i := range impart.Seq(10) {
				l.Bus.Publish(l.ctx, wake("question", i))
			}
		})
		e.hears(20)
		asked.Wait()
		e.cancel()
	}},
	{"nobody has to listen", func(l *line) {
		l.Bus.Publish(l.ctx, wake("c", 1))
		if err := l.Bus.Health(); err != nil {
			l.t.Errorf("health: %v", err)
		}
		e := l.listen(l.Bus, nil)
		l.Bus.Publish(l.ctx, wake("last", 1))
		e.hearsLast("last")
		e.cancel()
	}},
	{"a closed bus is quiet, and says so", func(l *line) {
		e := l.listen(l.Bus, nil)
		if err := l.Bus.Health(); err != nil {
			l.t.Errorf("health of an open bus: %v", err)
		}
		l.Bus.Publish(l.ctx, wake("c", 1))
		e.hears(1)
		if err := l.Bus.Close(); err != nil {
			l.t.Errorf("close: %v", err)
		}
		quiet := e.next()
		late := l.listen(l.Bus, nil)
		lateQuiet := late.next()
		l.Bus.Publish(l.ctx, wake("c", 2))
		select {
		case <-quiet:
			l.t.Error("a closed bus spoke to who had listened before")
		case <-lateQuiet:
			l.t.Error("a closed bus spoke to who came later")
		case <-time.After(quietFor):
		}
		late.cancel()
		if l.Bus.Health() == nil {
			l.t.Error("a closed bus says that messages flow")
		}
		e.cancel()
	}},
	{"closing ends subscriptions that nobody cancelled", func(l *line) {
		for range 3 {
			l.listen(l.Bus, nil)
		}
		l.Bus.Publish(l.ctx, wake("c", 1))
	}},
}
