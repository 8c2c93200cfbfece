package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/impart-im/impart/internal/bus"
)

// Why a line is given up.
var (
	errSilent = errors.New("what it told itself did not come back: the connection is half open")
	errMoved  = errors.New("the channels have moved to another server")
)

// line listens to the wanted channels of some groups, over one connection at a time.
// After each break its node's subscribers are told that they have missed something, as
// soon as it hears again.
type line struct {
	b              *Bus
	first, through int           // groups
	poke           chan struct{} // holds one token when other channels may be wanted
	pings          int64         // the newest ping, of whatever connection; of run alone

	mu   sync.Mutex // guards what follows
	live map[channel]bool
	deaf error
}

func newLine(b *Bus, first, through int) *line {
	return &line{b: b, first: first, through: through, poke: make(chan struct{}, 1), deaf: errDown}
}

func (l *line) health() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deaf
}

// hears reports whether what is published in a channel from now on is heard.
func (l *line) hears(c channel) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live[c]
}

// wake makes the line look at what is wanted.
func (l *line) wake() {
	select {
	case l.poke <- struct{}{}:
	default:
	}
}

// set notes how the line is, and which channels it is known to hear.
func (l *line) set(deaf error, live map[channel]bool) {
	l.mu.Lock()
	l.deaf, l.live = deaf, live
	l.mu.Unlock()
	l.b.wants.turned()
}

// run listens until ctx ends. up is called when it hears, and when it ends.
func (l *line) run(ctx context.Context, up func()) {
	defer up()
	for attempt := 0; ; attempt++ {
		if attempt > 0 && !wait(ctx, rand.N(min(l.b.cfg.MaxBackoff, 25*time.Millisecond<<min(attempt, 10)))) {
			return
		}
		s, err := l.open(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			l.set(err, nil)
			continue
		}
		attempt = 0
		if l.b.late.Load() {
			l.b.missed()
			l.b.cfg.Log.Info("the bus hears other nodes")
		}
		up()
		err = s.run(ctx)
		s.close()
		if ctx.Err() != nil {
			return
		}
		l.set(err, nil)
		l.b.c.metrics.breaks.WithLabelValues("listen").Inc()
		l.b.cfg.Log.Warn("the bus hears nothing from some or all other nodes; it connects again, and what is missed meanwhile is then looked for", "err", err)
	}
}

// session is one connection of a line.
type session struct {
	l       *line
	conn    rueidis.DedicatedClient
	release func()
	broken  <-chan error
	moved   chan struct{} // holds a token when Redis took a channel away
	pong    chan struct{} // holds a token when a ping has come back
	back    atomic.Int64  // the newest ping that has come back

	checked int64            // the newest ping at the last check
	asked   map[channel]bool // channels that were subscribed to
	proofs  []proof          // what pings prove when they come back
}

// proof is channels that are heard once a ping has come back: it was sent after they
// had been asked for.
type proof struct {
	ping int64
	of   []channel
}

// subscribeAtOnce bounds the channels in one command.
const subscribeAtOnce = 512

// open connects, subscribes to what is wanted, and proves that it hears.
func (l *line) open(ctx context.Context) (*session, error) {
	s := &session{l: l, moved: make(chan struct{}, 1), pong: make(chan struct{}, 1), asked: map[channel]bool{}}
	s.conn, s.release = l.b.c.get().Dedicate()
	s.broken = s.conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: s.take, OnSubscription: s.subscription})
	err := s.subscribe(ctx, l.b.names.own(l.first, l.b.cfg.Origin))
	if err == nil && l.first == 0 {
		err = s.subscribe(ctx, l.b.names.of(everyone))
	}
	if err == nil {
		err = s.adjust(ctx)
	}
	if err == nil {
		err = s.ping(ctx)
	}
	for late := time.After(l.b.cfg.Ping); err == nil && s.back.Load() < s.l.pings; {
		select {
		case <-s.pong:
		case err = <-s.broken:
			err = orClosed(err)
		case <-late:
			err = errSilent
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.proofs = append(s.proofs, proof{s.l.pings, nil})
	s.prove()
	return s, nil
}

func orClosed(err error) error {
	if err == nil {
		return errors.New("the connection is closed")
	}
	return err
}

func (s *session) close() {
	s.conn.Close()
	s.release()
}

// run keeps the session until the connection breaks or ctx ends.
func (s *session) run(ctx context.Context) error {
	tick := time.NewTicker(s.l.b.cfg.Ping)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.broken:
			return orClosed(err)
		case <-s.moved:
			return errMoved
		case <-s.pong:
			s.prove()
		case <-s.l.poke:
			err = s.adjust(ctx)
		case <-tick.C:
			err = s.check(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// check gives up a connection on which nothing has come back since the last check,
// leaves channels that nobody wants any more, and pings.
func (s *session) check(ctx context.Context) error {
	if s.back.Load() < s.checked {
		return errSilent
	}
	if err := s.leave(ctx); err != nil {
		return err
	}
	// If it cannot be sent, it does not come back.
	_ = s.ping(ctx)
	s.checked = s.l.pings
	return nil
}

// adjust subscribes to channels that are wanted and not asked for yet. The ping that
// follows proves that they are heard.
func (s *session) adjust(ctx context.Context) error {
	var missing []channel
	var names []string
	for _, c := range s.l.b.wants.in(s.l.first, s.l.through) {
		if !s.asked[c] {
			missing, names = append(missing, c), append(names, s.l.b.names.of(c))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	for i := 0; i < len(names); i += subscribeAtOnce {
		if err := s.subscribe(ctx, names[i:min(i+subscribeAtOnce, len(names))]...); err != nil {
			return err
		}
	}
	for _, c := range missing {
		s.asked[c] = true
	}
	s.proofs = append(s.proofs, proof{s.l.pings + 1, missing})
	_ = s.ping(ctx) // the next one proves it as well
	return nil
}

// prove takes what pings have proved.
func (s *session) prove() {
	back := s.back.Load()
	proved := 0
	for proved < len(s.proofs) && s.proofs[proved].ping <= back {
		proved++
	}
	if proved == 0 {
		return
	}
	s.proofs = s.proofs[proved:]
	unproved := map[channel]bool{}
	for _, p := range s.proofs {
		for _, c := range p.of {
			unproved[c] = true
		}
	}
	live := make(map[channel]bool, len(s.asked))
	for c := range s.asked {
		if !unproved[c] {
			live[c] = true
		}
	}
	s.l.set(nil, live)
}

// leave unsubscribes from channels that are not wanted any more.
func (s *session) leave(ctx context.Context) error {
	wanted := map[channel]bool{}
	for _, c := range s.l.b.wants.in(s.l.first, s.l.through) {
		wanted[c] = true
	}
	var names []string
	for c := range s.asked {
		if !wanted[c] {
			names = append(names, s.l.b.names.of(c))
			delete(s.asked, c)
		}
	}
	if len(names) == 0 {
		return nil
	}
	s.proofs = append(s.proofs, proof{s.l.pings, nil}) // those that are left are no longer live
	s.prove()
	for i := 0; i < len(names); i += subscribeAtOnce {
		some := names[i:min(i+subscribeAtOnce, len(names))]
		build := s.conn.B()
		cmd := build.Unsubscribe().Channel(some...).Build()
		if s.sharded() {
			cmd = build.Sunsubscribe().Channel(some...).Build()
		}
		if err := s.do(ctx, cmd); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) sharded() bool { return s.l.b.c.clustered() }

func (s *session) subscribe(ctx context.Context, names ...string) error {
	build := s.conn.B()
	if s.sharded() {
		return s.do(ctx, build.Ssubscribe().Channel(names...).Build())
	}
	return s.do(ctx, build.Subscribe().Channel(names...).Build())
}

func (s *session) do(ctx context.Context, cmd rueidis.Completed) error {
	ctx, cancel := context.WithTimeoutCause(ctx, silentFor, errSilent)
	defer cancel()
	return s.conn.Do(ctx, cmd).Error()
}

// ping tells this node itself something in each group of the line, over the way that
// messages go.
func (s *session) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.l.pings++
	conn := s.l.b.c.get()
	name, text := s.l.b.names.own(s.l.first, s.l.b.cfg.Origin), strconv.FormatInt(s.l.pings, 10)
	if s.sharded() {
		return conn.Do(ctx, conn.B().Spublish().Channel(name).Message(text).Build()).Error()
	}
	return conn.Do(ctx, conn.B().Publish().Channel(name).Message(text).Build()).Error()
}

// take takes one message off the connection, whose reader waits for it.
func (s *session) take(m rueidis.PubSubMessage) {
	b := s.l.b
	if m.Channel == b.names.own(s.l.first, b.cfg.Origin) {
		if n, err := strconv.ParseInt(m.Message, 10, 64); err == nil {
			s.back.Store(n)
			signal(s.pong)
		}
		return
	}
	origin, messages, err := bus.ParsePayload(m.Message)
	switch {
	case err != nil:
		b.cfg.Log.Warn("the bus got what it cannot read, from a node of another version or from elsewhere; what it may have said is looked for",
			"err", fmt.Errorf("%d bytes in %s: %w", len(m.Message), m.Channel, err))
		b.missed()
	case origin != b.cfg.Origin:
		b.c.metrics.heard.Add(float64(len(messages)))
		b.local.Publish(context.Background(), messages...)
	}
}

// subscription hears of what Redis did to the subscriptions. A Cluster that moves a
// slot takes its channels away.
func (s *session) subscription(change rueidis.PubSubSubscription) {
	if change.Kind != "sunsubscribe" {
		return
	}
	if s.l.b.wants.named(s.l.b.names, change.Channel, s.l.first) {
		signal(s.moved)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
