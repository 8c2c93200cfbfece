package client

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/wire"
)

// Bounds of one connection.
const (
	frameQueue  = 256 // frames that were read and not yet taken
	writeQueue  = 256 // frames that were made and not yet written
	maxRequests = 128 // requests without a reply, of all kinds
)

// session is one connection. All of it belongs to the goroutine of run; reader and
// writer only carry bytes. Frames that have gathered are taken together, what they
// change is written in one transaction, and only then the next frames are made: so
// nothing is acknowledged that is not on disk.
type session struct {
	c      *Client
	socket *websocket.Conn
	frames chan wire.ServerFrame // closed by the reader
	out    chan []byte
	readEr error // why the reader ended; set before frames is closed

	me    self
	convs map[impart.ConvID]*conv
	lanes map[impart.ConvID]*lane

	requests map[string]*request // by rid
	rids     int64
	waiting  int // requests that count against the limit

	busy map[*conv]bool // where something may be left to do

	welcomed  bool
	subbed    bool
	pulled    bool // a pull has said that there is nothing more
	caughtUp  bool // the state is Online
	toPull    bool
	pulling   bool
	pullHeld  bool      // the last page is not acknowledged yet
	pullAt    time.Time // not before
	pullPause time.Duration
	limits    wire.Limits
	rereads   bool      // read cursors of the store are to be looked at
	readAt    time.Time // not before
	looked    time.Time // when step last looked at what is due
	staleAt   time.Time // when the server has said that this connection is not the device's any more; zero: it has not

	acking   int       // acks without an answer
	ackAt    time.Time // not before
	unacked  int       // events stored since the last ack
	ackSince time.Time

	lastRead time.Time
	pinged   time.Time // when the unanswered ping went out; zero: none

	// What the frames taken together want to write, and what is to be told once it is.
	writes []func(tx *sql.Tx) error
	told   []Settled
	stored int // events written in this transaction
}

func newSession(c *Client, socket *websocket.Conn) (*session, error) {
	s := &session{
		c: c, socket: socket,
		frames: make(chan wire.ServerFrame, frameQueue), out: make(chan []byte, writeQueue),
		lanes: map[impart.ConvID]*lane{}, requests: map[string]*request{}, busy: map[*conv]bool{},
		toPull: true, rereads: true, lastRead: time.Now(),
		limits: wire.Limits{AckEvery: 1, Inflight: 1, Heartbeat: time.Minute},
	}
	var err error
	if s.me, err = loadSelf(c.store.db); err != nil {
		return nil, err
	}
	if s.convs, err = loadConvs(c.store.db); err != nil {
		return nil, err
	}
	for _, each := range s.convs {
		s.busy[each] = true
	}
	return s, s.findLanes()
}

// run says hello and works until the connection ends; the error is why.
func (s *session) run(ctx context.Context, token string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var carriers sync.WaitGroup
	carriers.Go(func() { s.readFrames(ctx) })
	carriers.Go(func() { cancel(s.writeFrames(ctx)) })
	err := s.work(ctx, token)
	if cause := context.Cause(ctx); errors.Is(err, context.Canceled) && cause != nil {
		err = cause
	}
	cancel(err)
	_ = s.socket.CloseNow()
	for range s.frames { // the reader may wait for a place
	}
	carriers.Wait()
	for _, r := range s.requests {
		r.drop(ErrOffline)
	}
	return err
}

func (s *session) readFrames(ctx context.Context) {
	defer close(s.frames)
	for {
		_, data, err := s.socket.Read(ctx)
		if err != nil {
			s.readEr = err
			return
		}
		frame, err := wire.DecodeServer(data)
		if err != nil {
			if !errors.Is(err, wire.ErrUnknownFrame) {
				s.c.cfg.Log.Warn("a frame of the server cannot be read; it is left out", "error", err)
			}
			continue
		}
		select {
		case s.frames <- frame:
		case <-ctx.Done():
			return
		}
	}
}

// writeFrames ends with the error of the first write that failed.
func (s *session) writeFrames(ctx context.Context) error {
	for {
		select {
		case data := <-s.out:
			limited, cancel := context.WithTimeout(ctx, s.c.cfg.ReplyTimeout)
			err := s.socket.Write(limited, websocket.MessageText, data)
			cancel()
			if err != nil {
				return fmt.Errorf("client: cannot write to the connection: %w", err)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *session) work(ctx context.Context, token string) error {
	hello := &wire.Hello{
		Token: token, Device: s.me.Device, Install: s.me.Install, N: &s.me.N, Proto: wire.Proto,
	}
	if len(s.convs) == 0 { // a store that holds something goes on from there, also as a new install
		hello.History = s.c.cfg.History
	}
	if fault.Planted(fault.ClientHidesN) {
		hello.N = nil
	}
	s.ask(hello, &request{kind: asksHello})
	timer := time.NewTimer(s.c.cfg.ReplyTimeout)
	defer timer.Stop()
	for {
		calls := s.c.calls
		if !s.welcomed || s.waiting >= maxRequests {
			calls = nil
		}
		var err error
		select {
		case frame, open := <-s.frames:
			if !open {
				return s.ended()
			}
			err = s.takeAll(frame)
		case call := <-calls:
			s.ask(call.frame, &request{kind: asksCall, call: call})
		case id := <-s.c.typing:
			if s.subbed && len(s.out) < writeQueue/2 { // it is worth nothing later
				s.send(&wire.Typing{Conv: id})
			}
		case <-s.c.wakeLink:
			s.rereads = true
			s.wakeLanes()
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err == nil {
			err = s.flush()
		}
		if err == nil {
			err = s.step()
		}
		if err != nil {
			return err
		}
		timer.Reset(time.Until(s.nextLook()))
	}
}

// ended is why the reader could not go on. A close code stands for a bye that
// was lost.
func (s *session) ended() error {
	var closed websocket.CloseError
	if errors.As(s.readEr, &closed) {
		if code := wire.ByeOfClose(uint16(closed.Code)); code != "" {
			return &Bye{Code: string(code), Final: code.Final()}
		}
	}
	return fmt.Errorf("client: the connection ended: %w", s.readEr)
}

// takeAll takes a frame and all that have gathered behind it.
func (s *session) takeAll(frame wire.ServerFrame) error {
	s.lastRead, s.pinged = time.Now(), time.Time{}
	for n := 0; ; n++ {
		if err := s.take(frame); err != nil {
			// What came before is worth keeping; the end of the connection stays the news.
			_ = s.flush()
			return err
		}
		if n >= frameQueue {
			return nil
		}
		select {
		case next, open := <-s.frames:
			if !open {
				// The next round finds it closed.
				return nil
			}
			frame = next
		default:
			return nil
		}
	}
}

// write adds to the transaction of this round.
func (s *session) write(do func(tx *sql.Tx) error) { s.writes = append(s.writes, do) }

// flush writes what the round wants to, durably. After an error nothing of it
// counts: the session ends, and the next one reads the store anew.
func (s *session) flush() error {
	if len(s.writes) == 0 {
		return nil
	}
	writes := s.writes
	s.writes, s.stored = nil, 0
	err := s.c.store.write(context.WithoutCancel(s.c.ctx), func(tx *sql.Tx) error {
		for _, do := range writes {
			if err := do(tx); err != nil {
				return err
			}
		}
		for c := range s.busy {
			if err := c.keep(tx); err != nil {
				return err
			}
		}
		if s.stored == 0 {
			return nil
		}
		return run(tx, "UPDATE self SET n = ?", s.me.N+1)
	})
	if err != nil {
		return fmt.Errorf("client: the local store cannot be written: %w", err)
	}
	if s.stored > 0 {
		s.me.N++
		s.countUnacked(s.stored)
		poke(s.c.wakeHandler)
	}
	told := s.told
	s.told = nil
	s.c.settled(told)
	return s.flush() // what these writes have led to
}

// nextRID names the next request.
func (s *session) nextRID() string {
	s.rids++
	return strconv.FormatInt(s.rids, 36)
}

// send queues a frame for the writer. The limits on requests keep the queue from
// filling up; if it is full all the same, the connection has stood still for long.
func (s *session) send(frame wire.Frame) {
	select {
	case s.out <- wire.AppendFrame(nil, frame):
	default:
		_ = s.socket.CloseNow()
	}
}

// conv is what is known of a conversation that a frame speaks of; step will look at it.
func (s *session) conv(id impart.ConvID) *conv {
	c := s.convs[id]
	if c == nil {
		c = &conv{id: id}
		s.convs[id] = c
	}
	s.busy[c] = true
	return c
}
