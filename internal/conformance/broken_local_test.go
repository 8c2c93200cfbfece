package conformance_test

import (
	"context"
	"math"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/pending"
)

// busNoticedBy says which story fails on a bus that lacks a guard.
var busNoticedBy = map[string]string{
	"bus:loses fields":      "everybody hears every field of every message",
	"bus:first only":        "everybody hears every field of every message",
	"bus:out of order":      "messages come in the order in which they were published",
	"bus:shuffles callers":  "publishers at once keep each its own order",
	"bus:overlaps":          "a subscriber is called by one goroutine at a time",
	"bus:deaf to cancel":    "who has cancelled hears nothing more, and the others go on",
	"bus:blocks":            "a slow subscriber holds up nobody and is told what it missed",
	"bus:silent about loss": "what comes after a gap is heard after it",
	"bus:locked":            "a subscriber may publish",
	"bus:never healthy":     "nobody has to listen",
	"bus:always healthy":    "a closed bus is quiet, and says so",
	"bus:speaks on":         "a closed bus is quiet, and says so",
	"bus:leaks":             "closing ends subscriptions that nobody cancelled",
}

// faultyBus is a local bus that does one thing wrong.
type faultyBus struct {
	*bus.Local
	fault string

	mu     sync.Mutex // guards what follows
	direct []func(bus.Message)
	asked  bool
}

func brokenBus(b *bus.Local) bus.Bus {
	fault := os.Getenv(breakEnv)
	if !strings.HasPrefix(fault, "bus:") {
		return b
	}
	return &faultyBus{Local: b, fault: fault}
}

func (b *faultyBus) Publish(ctx context.Context, messages ...bus.Message) {
	messages = slices.Clone(messages)
	switch b.fault {
	case "bus:loses fields":
		for i := range messages {
			messages[i].Session = 0
		}
	case "bus:out of order":
		slices.Reverse(messages)
	case "bus:shuffles callers":
		if len(messages) == 1 && messages[0].Head%2 == 0 {
			next := messages[0]
			next.Head++
			messages = []bus.Message{next, messages[0]}
		} else {
			return
		}
	case "bus:overlaps", "bus:blocks", "bus:locked", "bus:first only":
		b.call(messages)
		return
	}
	b.Local.Publish(ctx, messages...)
}

// call tells the subscribers in the publisher's own goroutine.
func (b *faultyBus) call(messages []bus.Message) {
	if b.fault == "bus:locked" || b.fault == "bus:blocks" {
		b.mu.Lock()
		defer b.mu.Unlock()
	}
	for _, handle := range b.direct {
		for _, m := range messages {
			handle(m)
		}
		if b.fault == "bus:first only" {
			return
		}
	}
}

func (b *faultyBus) Subscribe(handle func(bus.Message)) func() {
	b.mu.Lock()
	b.direct = append(b.direct, handle)
	b.mu.Unlock()
	switch b.fault {
	case "bus:deaf to cancel":
		b.Local.Subscribe(handle)
		return func() {}
	case "bus:silent about loss":
		return b.Local.Subscribe(func(m bus.Message) {
			if m.Kind != bus.Missed {
				handle(m)
			}
		})
	case "bus:leaks":
		go func() { select {} }()
	}
	return b.Local.Subscribe(handle)
}

func (b *faultyBus) Close() error {
	if b.fault == "bus:speaks on" && !b.asked {
		b.asked = true // and closes when it is asked again
		return nil
	}
	return b.Local.Close()
}

func (b *faultyBus) Health() error {
	switch b.fault {
	case "bus:always healthy":
		return nil
	case "bus:never healthy":
		return context.DeadlineExceeded
	}
	return b.Local.Health()
}

// pendingNoticedBy says which story fails on a set that lacks a guard.
var pendingNoticedBy = map[string]string{
	"pending:register resets":   "new events do not start attempts anew",
	"pending:register lowers":   "new events do not start attempts anew",
	"pending:moved keeps":       "a moved cursor starts attempts anew",
	"pending:moved adds none":   "a flow that moved and was not there is added",
	"pending:one ladder":        "each flow climbs its own ladder",
	"pending:never gives up":    "a flow is tried four times and then given up",
	"pending:no limit":          "a scan takes at most its limit",
	"pending:settles nothing":   "a settled flow is never due",
	"pending:settle fails":      "a settled flow is never due",
	"pending:drops nothing":     "a connection takes its flows with it",
	"pending:drops everything":  "a connection takes its flows with it",
	"pending:conn is no key":    "flows are told apart by every part of their key",
	"pending:keys collide":      "flows are told apart by every part of their key",
	"pending:twice":             "two scanners never get one flow twice",
	"pending:catches up bursts": "a late scan tries each flow once",
	"pending:remembers settled": "a flow may come back after it was settled or given up",
	"pending:ghosts":            "acks and scans at once leave no ghost",
}

// faultySet is a local set that does one thing wrong.
type faultySet struct {
	*pending.Local
	fault string

	mu      sync.Mutex // guards what follows
	last    []pending.Entry
	settled map[pending.Key]bool
	lowest  map[pending.Key]impart.Seq
}

func brokenPending(s *pending.Local) pending.Set {
	fault := os.Getenv(breakEnv)
	if !strings.HasPrefix(fault, "pending:") {
		return s
	}
	return &faultySet{Local: s, fault: fault, settled: map[pending.Key]bool{}, lowest: map[pending.Key]impart.Seq{}}
}

func (s *faultySet) Register(ctx context.Context, entries ...pending.Entry) error {
	switch s.fault {
	case "pending:register resets":
		return s.Local.Moved(ctx, entries...)
	case "pending:one ladder":
		for i := range entries {
			entries[i].Ladder = pending.DefaultLadder
		}
	case "pending:register lowers":
		for _, e := range entries {
			s.lowest[e.Key] = e.Seq
		}
	case "pending:conn is no key":
		for i := range entries {
			entries[i].Conn = 1
		}
	case "pending:keys collide":
		for i := range entries {
			entries[i].User += impart.UserID(entries[i].Device)
			entries[i].Device = ""
		}
	case "pending:remembers settled":
		entries = slices.DeleteFunc(entries, func(e pending.Entry) bool { return s.settled[e.Key] })
	}
	return s.Local.Register(ctx, entries...)
}

func (s *faultySet) Moved(ctx context.Context, entries ...pending.Entry) error {
	switch s.fault {
	case "pending:moved keeps":
		return s.Local.Register(ctx, entries...)
	case "pending:moved adds none":
		return nil
	}
	return s.Local.Moved(ctx, entries...)
}

func (s *faultySet) Settle(ctx context.Context, keys ...pending.Key) error {
	switch s.fault {
	case "pending:settles nothing":
		return nil
	case "pending:settle fails":
		if slices.ContainsFunc(keys, func(k pending.Key) bool { return k.Conv == "nowhere" }) {
			return context.Canceled
		}
	case "pending:ghosts":
		if err := s.Local.Settle(ctx, keys...); err != nil {
			return err
		}
		for _, k := range keys { // as a registration that an ack has overtaken does
			if err := s.Local.Register(ctx, pending.Entry{Key: k, Ladder: pending.DefaultLadder}); err != nil {
				return err
			}
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		s.settled[k] = true
	}
	return s.Local.Settle(ctx, keys...)
}

func (s *faultySet) Drop(ctx context.Context, conn uint64) error {
	switch s.fault {
	case "pending:drops nothing":
		return nil
	case "pending:drops everything":
		for c := range uint64(100) {
			if err := s.Local.Drop(ctx, c); err != nil {
				return err
			}
		}
	}
	return s.Local.Drop(ctx, conn)
}

func (s *faultySet) Due(ctx context.Context, limit int) ([]pending.Entry, error) {
	if s.fault == "pending:no limit" {
		limit = math.MaxInt
	}
	due, err := s.Local.Due(ctx, limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.fault {
	case "pending:twice":
		if len(due) > 0 {
			due, s.last = append(due, s.last...), slices.Clone(due[:1])
		}
	case "pending:catches up bursts":
		if len(s.last) > 0 {
			due, s.last = s.last, nil
		} else {
			s.last = due
		}
	case "pending:never gives up":
		for _, e := range due {
			if e.Attempts > pending.Attempts {
				e.Attempts = 1
				err = s.Local.Register(ctx, e)
			}
		}
	case "pending:register lowers":
		for i := range due {
			due[i].Seq = s.lowest[due[i].Key]
		}
	}
	return due, err
}
