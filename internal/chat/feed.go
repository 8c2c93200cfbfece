package chat

import (
	"context"
	"sync"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// notice is one thing that the client was told of. Exactly one field is set.
type notice struct {
	status  *client.Status
	settled *client.Settled
	receipt *client.Receipt
	rewound *mark
	typing  *typist
}

type mark struct {
	conv impart.ConvID
	seq  impart.Seq
}

type typist struct {
	conv impart.ConvID
	user impart.UserID
}

// maxNotices bounds what waits for a slow reader; past it receipts and typing are
// dropped. The others are as many as there are outbox items and reconnects.
const maxNotices = 4096

// feed collects what the client's handlers are told until somebody takes it. Events
// are not among it: they are in the store, and a poke says that there are more.
type feed struct {
	wake chan struct{} // of one place

	mu      sync.Mutex // guards what follows
	notices []notice
}

func newFeed() *feed { return &feed{wake: make(chan struct{}, 1)} }

func (f *feed) handler() client.Handler {
	return client.Handler{
		Event:   func(context.Context, impart.Event) error { f.poke(); return nil },
		Rewound: func(conv impart.ConvID, after impart.Seq) { f.put(notice{rewound: &mark{conv, after}}) },
		Settled: func(s client.Settled) { f.put(notice{settled: &s}) },
		Status:  func(s client.Status) { f.put(notice{status: &s}) },
		Receipt: func(r client.Receipt) { f.mayPut(notice{receipt: &r}) },
		Typing:  func(conv impart.ConvID, user impart.UserID) { f.mayPut(notice{typing: &typist{conv, user}}) },
	}
}

func (f *feed) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *feed) put(n notice) {
	f.mu.Lock()
	f.notices = append(f.notices, n)
	f.mu.Unlock()
	f.poke()
}

func (f *feed) mayPut(n notice) {
	f.mu.Lock()
	full := len(f.notices) >= maxNotices
	f.mu.Unlock()
	if !full {
		f.put(n)
	}
}

// take gives what has gathered, in the order in which it was told.
func (f *feed) take() []notice {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.notices
	f.notices = nil
	return list
}
