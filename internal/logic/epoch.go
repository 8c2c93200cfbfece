package logic

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart"
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

// presentEpoch is the store's epoch as a read finds it that began after the call:
// whoever answers without the store's help may not go by an older one (hole 17).
// Callers that come while one reads wait for it to end, and share the next read.
func (s *Service) presentEpoch(ctx context.Context) (impart.Epoch, error) {
	k := &s.epoch
	before := k.begun.Load()
	select {
	case k.reading <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-k.reading }()
	if k.begun.Load() > before && k.found == nil {
		return impart.Epoch(k.value.Load()), nil
	}
	k.begun.Add(1)
	meta, err := s.store.Meta(ctx)
	k.found = err
	if err != nil {
		return 0, err
	}
	k.saw(meta.Epoch)
	return impart.Epoch(k.value.Load()), nil
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
	s.epoch.saw(meta.Epoch)
	s.epoch.asked.Store(int64(now))
	return impart.Epoch(s.epoch.value.Load()), nil
}
