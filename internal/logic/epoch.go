package logic

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// epochAge is how long a known epoch is taken for the current one without
// asking. No write rests on it: the store checks the epoch of each itself.
const epochAge = time.Second

// knownEpoch is the highest epoch seen.
type knownEpoch struct {
	value atomic.Int64
	asked atomic.Int64 // when the store was last asked, in ms; 0: ask now

	begun   atomic.Int64  // reads of [Service.presentEpoch] that have begun
	reading chan struct{} // held by the one that reads
	// What the last of these reads found. Invariant: only used by who holds reading.
	found error
	of    string // the incarnation

	// lately is the incarnation that was read last, for answers that are kept for other
	// nodes: where it is an older one, nobody takes them.
	lately atomic.Pointer[string]
}

func (k *knownEpoch) saw(epoch impart.Epoch) {
	for {
		known := k.value.Load()
		if int64(epoch) <= known || k.value.CompareAndSwap(known, int64(epoch)) {
			return
		}
	}
}

func (k *knownEpoch) forget() { k.asked.Store(0) }

// presentEpoch is the store's epoch and incarnation as a read finds them that began
// after the call: whoever answers without the store's help may not go by older ones
// (holes 16 and 17). Callers that come while one reads wait for it to end, and share
// the next read.
func (s *Service) presentEpoch(ctx context.Context) (epoch impart.Epoch, incarnation string, err error) {
	k := &s.epoch
	before := k.begun.Load()
	select {
	case k.reading <- struct{}{}:
	case <-ctx.Done():
		return 0, "", ctx.Err()
	}
	defer func() { <-k.reading }()
	if k.begun.Load() > before && k.found == nil {
		return impart.Epoch(k.value.Load()), k.of, nil
	}
	k.begun.Add(1)
	meta, err := s.store.Meta(ctx)
	k.found = err
	if err != nil {
		return 0, "", err
	}
	k.met(meta)
	k.of = meta.Incarnation
	return impart.Epoch(k.value.Load()), k.of, nil
}

// met notes what the store says of itself.
func (k *knownEpoch) met(meta store.Meta) {
	k.saw(meta.Epoch)
	if known := k.lately.Load(); known == nil || *known != meta.Incarnation {
		k.lately.Store(&meta.Incarnation)
	}
}

// incarnation is the store's as it was known at most a second ago; "" when it is not.
func (s *Service) incarnation(ctx context.Context) string {
	if _, err := s.Epoch(ctx); err != nil {
		return ""
	}
	if known := s.epoch.lately.Load(); known != nil {
		return *known
	}
	return ""
}

// Epoch implements [impart.Sessions]. It is at most a second old.
func (s *Service) Epoch(ctx context.Context) (impart.Epoch, error) {
	now := s.now()
	asked := impart.Millis(s.epoch.asked.Load())
	if asked != 0 && now >= asked && now-asked < impart.Millis(epochAge.Milliseconds()) {
		return impart.Epoch(s.epoch.value.Load()), nil
	}
	meta, err := s.store.Meta(ctx)
	if err != nil {
		return 0, s.answer(ctx, "epoch", err)
	}
	s.epoch.met(meta)
	s.epoch.asked.Store(int64(now))
	return impart.Epoch(s.epoch.value.Load()), nil
}
