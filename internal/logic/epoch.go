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
