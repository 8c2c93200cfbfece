package dedup

import (
	"context"
	"sync"
	"time"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/impart-im/impart"
)

// What a [Filter] is made for (seed 002): so many keys, of which one in a hundred that
// is not there is taken for one that is. It takes 1.2 MB. With more keys it answers
// "maybe" more often, and is no less right.
const (
	filterKeys  = 1_000_000
	filterWrong = 0.01
)

// Of keeping a filter up to date.
const (
	buildEvery = TTL             // it is built anew, so that keys that are too old leave it
	tailEvery  = 2 * time.Second // and learns what other nodes have stored
	// slack is how much earlier than the last look keys are looked for: what was sent
	// before may have committed since, and clocks differ.
	slack     = 3 * time.Second
	keysAPage = 10_000
)

// Source lists the keys of messages that were sent at since or later, ascending by
// that time, at most limit: [store.Upkeep].
type Source func(ctx context.Context, since impart.Millis, limit int) ([]Recent, error)

// Recent is the key of a message that was stored lately.
type Recent struct {
	User impart.UserID
	CMID impart.CMID
	At   impart.Millis
}

// Filter is a Bloom filter of the keys of the last [TTL], as far as they are known
// here. It only ever saves a look-up in a cache: "surely new" is true of what this
// node knows, and another node may just have stored the message, so that the store
// decides in any case; "maybe" means no more than to look. It is safe for concurrent
// use.
type Filter struct {
	source Source
	now    func() time.Time

	mu   sync.RWMutex       // guards what follows
	keys *bloom.BloomFilter // nil: not built yet, everything may be there
	next *bloom.BloomFilter // being built; nil: none
	from impart.Millis      // what the next look at the source begins with
}

// NewFilter makes a filter that says "maybe" of everything until [Filter.Run] has
// built it. now nil means [time.Now].
func NewFilter(source Source, now func() time.Time) *Filter {
	if now == nil {
		now = time.Now
	}
	return &Filter{source: source, now: now}
}

func newBloom() *bloom.BloomFilter { return bloom.NewWithEstimates(filterKeys, filterWrong) }

// Maybe is false of a key that is surely not among those that are known here.
func (f *Filter) Maybe(key Key) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.keys == nil || f.keys.Test(key[:])
}

// Add makes a key known. While a filter is being built it is added to both, so that
// the swap forgets nothing.
func (f *Filter) Add(keys ...Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range keys {
		if f.keys != nil {
			f.keys.Add(keys[i][:])
		}
		if f.next != nil {
			f.next.Add(keys[i][:])
		}
	}
}

// Size is about how many keys are known.
func (f *Filter) Size() int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.keys == nil {
		return 0
	}
	return int(f.keys.ApproximatedSize())
}

// Run builds the filter, keeps it up to date and builds it anew now and then, until
// ctx ends. failed is told of what the source could not give: the filter then stays as
// it is, and lacks what it could have learned.
func (f *Filter) Run(ctx context.Context, failed func(error)) {
	tick := time.NewTicker(tailEvery)
	defer tick.Stop()
	var built time.Time
	for {
		var err error
		if built.IsZero() || f.now().Sub(built) >= buildEvery {
			began := f.now()
			if err = f.Build(ctx); err == nil {
				built = began
			}
		} else {
			err = f.learn(ctx, f.since())
		}
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Build makes the filter anew from the keys of the last [TTL]. The old one serves
// until the new one is complete.
func (f *Filter) Build(ctx context.Context) error {
	f.mu.Lock()
	f.next = newBloom()
	f.mu.Unlock()
	err := f.learn(ctx, impart.Millis(f.now().Add(-TTL-slack).UnixMilli()))
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.keys = f.next
	}
	f.next = nil
	return err
}

func (f *Filter) since() impart.Millis {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.from
}

// learn adds all keys from since on.
func (f *Filter) learn(ctx context.Context, since impart.Millis) error {
	next := impart.Millis(f.now().Add(-slack).UnixMilli())
	for {
		recent, err := f.source(ctx, since, keysAPage)
		if err != nil {
			return err
		}
		keys := make([]Key, len(recent))
		for i := range recent {
			keys[i] = KeyOf(recent[i].User, recent[i].CMID)
		}
		f.Add(keys...)
		if len(recent) < keysAPage {
			break
		}
		// More keys than fit are of one millisecond: some are left out, as any may be.
		since = max(recent[len(recent)-1].At, since+1)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.from = next
	return nil
}
