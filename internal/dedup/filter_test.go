package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/dedup"
)

// rows are the keys in a store, ascending by time.
type rows struct {
	mu   sync.Mutex // guards what follows
	keys []dedup.Recent
	err  error
	read int
}

func (r *rows) put(keys ...dedup.Recent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = append(r.keys, keys...)
}

func (r *rows) list(_ context.Context, since impart.Millis, limit int) ([]dedup.Recent, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, _ := slices.BinarySearchFunc(r.keys, since, func(k dedup.Recent, t impart.Millis) int { return int(k.At - t) })
	page := r.keys[at:min(at+limit, len(r.keys))]
	r.read += len(page)
	return slices.Clone(page), r.err
}

func recent(n int, at time.Time) dedup.Recent {
	return dedup.Recent{User: "u-ana", CMID: impart.CMID(fmt.Sprint("m-", n)), At: impart.Millis(at.UnixMilli())}
}

func key(n int) dedup.Key { return dedup.KeyOf("u-ana", impart.CMID(fmt.Sprint("m-", n))) }

func TestAFilterKnowsWhatWasStoredLately(t *testing.T) {
	var store rows
	const known, unknown = 25_000, 20_000 // several pages
	began := time.Now().Add(-9 * time.Minute)
	store.put(recent(-1, began.Add(-time.Hour)))
	for n := range known {
		store.put(recent(n, began.Add(time.Duration(n/50)*time.Millisecond)))
	}
	f := dedup.NewFilter(store.list, nil)
	if !f.Maybe(key(known + 1)) {
		t.Error("a filter that has not been built knows what is new")
	}
	if err := f.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := range known {
		if !f.Maybe(key(n)) {
			t.Fatalf("key %d is taken for new", n)
		}
	}
	wrong := 0
	for n := range unknown {
		if f.Maybe(key(known + n)) {
			wrong++
		}
	}
	if wrong > unknown/100 {
		t.Errorf("%d of %d new keys may be known", wrong, unknown)
	}
	if f.Maybe(key(-1)) {
		t.Log("a key that is too old may be known: that happens to one in a hundred")
	}
	if size := f.Size(); size < known*95/100 || size > known*105/100 {
		t.Errorf("it knows about %d keys of %d", size, known)
	}
	f.Add(key(known + 7))
	if !f.Maybe(key(known + 7)) {
		t.Error("what was added is taken for new")
	}
}

// Seed 002: one in a hundred, with a million keys.
func TestAFullFilterIsSeldomWrong(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a million keys")
	}
	f := dedup.NewFilter((&rows{}).list, nil)
	if err := f.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	var k dedup.Key
	number := func(n, kind int) dedup.Key {
		k[0], k[1], k[2], k[3], k[31] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(kind)
		return k
	}
	const full = 1_000_000
	for n := range full {
		f.Add(number(n, 1))
	}
	wrong := 0
	for n := range full / 10 {
		if f.Maybe(number(n, 2)) {
			wrong++
		}
	}
	if share := float64(wrong) / (full / 10); share > 0.012 || share < 0.002 {
		t.Errorf("%.2f %% of new keys may be known, want about 1 %%", 100*share)
	}
}

// Whatever is added stays known while the filter is built anew, again and again.
func TestASwapForgetsNothing(t *testing.T) {
	var store rows
	f := dedup.NewFilter(store.list, nil)
	if err := f.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var builder sync.WaitGroup
	builder.Go(func() {
		for !over.Load() {
			if err := f.Build(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	for n := range 3000 {
		// As a send does: it is in the store before it is added here, and stays.
		store.put(recent(n, time.Now()))
		f.Add(key(n))
		for _, k := range []int{n, n / 2, 0} {
			if !f.Maybe(key(k)) {
				t.Fatalf("key %d is taken for new after %d", k, n)
			}
		}
	}
	over.Store(true)
	builder.Wait()
}

// A key that is added while the source has been read already, and is not in it yet, is
// in the filter that comes.
func TestWhatIsAddedDuringABuildIsInTheNextFilter(t *testing.T) {
	var f *dedup.Filter
	first := true
	f = dedup.NewFilter(func(context.Context, impart.Millis, int) ([]dedup.Recent, error) {
		if !first {
			f.Add(key(7))
			if !f.Maybe(key(7)) {
				t.Error("it is taken for new meanwhile")
			}
		}
		first = false
		return nil, nil
	}, nil)
	for range 2 {
		if err := f.Build(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !f.Maybe(key(7)) {
		t.Error("it is taken for new after the swap")
	}
}

func TestAFilterFollowsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rows{}
		f := dedup.NewFilter(store.list, nil)
		ctx, stop := context.WithCancel(t.Context())
		var failures atomic.Int32
		ended := make(chan struct{})
		go func() { f.Run(ctx, func(error) { failures.Add(1) }); close(ended) }()
		synctest.Wait()
		wantNew := func(n int, is bool) {
			t.Helper()
			if f.Maybe(key(n)) == is {
				t.Errorf("key %d: new is %v, want %v", n, !is, is)
			}
		}
		wantNew(1, true)
		store.put(recent(1, time.Now().Add(-2*time.Second)), recent(2, time.Now()))
		time.Sleep(3 * time.Second)
		wantNew(1, false) // another node's clock is behind, and it committed late
		wantNew(2, false)
		store.mu.Lock()
		store.err = errors.New("the store is down")
		store.mu.Unlock()
		store.put(recent(3, time.Now()))
		time.Sleep(3 * time.Second)
		wantNew(3, true)
		store.mu.Lock()
		store.err = nil
		store.mu.Unlock()
		time.Sleep(3 * time.Second)
		wantNew(3, false) // it is looked for from where the last look ended
		if failures.Load() == 0 {
			t.Error("nobody was told of the failure")
		}
		store.mu.Lock()
		before := store.read
		store.mu.Unlock()
		time.Sleep(time.Minute)
		store.mu.Lock()
		if n := store.read - before; n > 3 {
			t.Errorf("%d keys were read again in a quiet minute", n)
		}
		store.mu.Unlock()
		time.Sleep(2 * dedup.TTL)
		wantNew(2, true) // too old: the cache behind has forgotten it as well
		stop()
		<-ended
	})
}
