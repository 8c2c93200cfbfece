package dedup_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/dedup"
)

// entry is an answer that nobody else has.
func entry(n int) dedup.Entry {
	return dedup.Entry{Key: dedup.KeyOf("u-ana", impart.CMID(fmt.Sprint("m-", n))), Answer: dedup.Answer{
		Hash: [16]byte{byte(n)}, Seq: impart.Seq(n + 1), MID: impart.MID(uuid.Must(uuid.NewV7()).String()), At: impart.Millis(1000 + n), Epoch: 3,
	}}
}

func find(c dedup.Cache, key dedup.Key) dedup.Answer {
	entries := []dedup.Entry{{Key: key}}
	c.Find(context.Background(), entries)
	return entries[0].Answer
}

func keep(c dedup.Cache, entries ...dedup.Entry) { c.Keep(context.Background(), entries) }

func TestAnAnswerIsFoundUnderItsKeyAlone(t *testing.T) {
	l := dedup.NewLocal(dedup.Options{})
	one, two, other := entry(1), entry(2), entry(3)
	keep(l, one, two)
	entries := []dedup.Entry{{Key: two.Key}, {Key: other.Key}, {Key: one.Key}}
	l.Find(t.Context(), entries)
	two.Layer, one.Layer = dedup.Memory, dedup.Memory
	if entries[0] != two || entries[1].Answer != (dedup.Answer{}) || entries[2] != one {
		t.Errorf("found %+v", entries)
	}
	one.Answer = entry(4).Answer
	keep(l, one)
	if got := find(l, one.Key); got != one.Answer {
		t.Errorf("the newer answer is %+v, found %+v", one.Answer, got)
	}
}

func TestKeysHaveBorders(t *testing.T) { // D12
	long := strings.Repeat("u", impart.MaxID)
	pairs := [][2]string{
		{"a:b", "c"}, {"a", "b:c"}, {"a", ":bc"}, {"", "a:bc"}, {"a:bc", ""}, {"a", "bc"}, {"ab", "c"},
		{"\x01a", ""}, {"", "\x01a"}, {"a\x01", "b"}, {"a", "\x01b"}, {"A", "bc"}, {"a", "bc "}, {"a ", "bc"},
		{"x", "\x01\x00"}, {"x\x02\x01", ""}, // one text if only the cmid had its length
		{long, "c"}, {long[1:], "uc"}, {long, "uc"},
	}
	seen := map[dedup.Key][2]string{}
	for _, pair := range pairs {
		key := dedup.KeyOf(impart.UserID(pair[0]), impart.CMID(pair[1]))
		if other, taken := seen[key]; taken {
			t.Errorf("%q and %q share a key", other, pair)
		}
		seen[key] = pair
	}
	if once, again := dedup.KeyOf("a", "b"), dedup.KeyOf("a", "b"); once != again {
		t.Error("one pair has two keys")
	}
}

func TestAnAnswerIsForgottenAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := dedup.NewLocal(dedup.Options{})
		one := entry(1)
		keep(l, one)
		<-time.After(dedup.TTL - 1)
		if find(l, one.Key) != one.Answer {
			t.Error("forgotten too early")
		}
		<-time.After(1)
		if got := find(l, one.Key); got.Seq != 0 {
			t.Errorf("found after its time: %+v", got)
		}
		keep(l, one)
		if find(l, one.Key) != one.Answer {
			t.Error("not kept again")
		}
	})
}

func TestAMidOfAnotherFormIsNotKept(t *testing.T) {
	l := dedup.NewLocal(dedup.Options{})
	for _, mid := range []impart.MID{"", "mid", "01A2292B-91D0-7E87-84C5-765B9F58FACF", "01a2292b91d07e8784c5765b9f58facf"} {
		odd := entry(1)
		odd.MID = mid
		keep(l, odd)
		if got := find(l, odd.Key); got.Seq != 0 {
			t.Errorf("%q is found as %q", mid, got.MID)
		}
	}
}

// Whatever is kept and found: what is found was kept last under its key, there
// are never more than the limit, and what is found all the time stays.
func TestACacheIsBoundedAndNeverWrong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(2, 20).Draw(t, "limit")
		l := dedup.NewLocal(dedup.Options{Limit: limit})
		favourite := entry(1000)
		keep(l, favourite)
		last := map[dedup.Key]dedup.Answer{}
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			if find(l, favourite.Key) != favourite.Answer {
				t.Fatal("what is found all the time is gone")
			}
			e := entry(rapid.IntRange(0, 40).Draw(t, "which"))
			keep(l, e)
			last[e.Key] = e.Answer
		}
		n := 0
		last[favourite.Key] = favourite.Answer
		for key, want := range last {
			switch got := find(l, key); {
			case got == want:
				n++
			case got.Seq != 0:
				t.Fatalf("found %+v, kept last was %+v", got, want)
			}
		}
		if n > limit || n < min(limit, len(last)) {
			t.Fatalf("%d of %d answers are kept, %d have room", n, len(last), limit)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	l := dedup.NewLocal(dedup.Options{Limit: 100})
	var together sync.WaitGroup
	for worker := range 8 {
		together.Go(func() {
			for n := range 500 {
				e := entry(n%150 + worker*1000)
				keep(l, e)
				if got := find(l, e.Key); got.Seq != 0 && got.Seq != e.Seq {
					t.Errorf("found %+v, kept %+v", got, e.Answer)
				}
			}
		})
	}
	together.Wait()
}

// A full cache costs little, and its garbage collection nothing.
func TestAFullCacheIsSmall(t *testing.T) {
	l, size := filled()
	t.Logf("%d answers take %d bytes, %d each", dedup.DefaultLimit, size, size/dedup.DefaultLimit)
	if size > 4<<20 {
		t.Errorf("a full cache takes %d bytes", size)
	}
	runtime.KeepAlive(l)
}

// filled is a full cache through which as many again have passed, and its size.
func filled() (*dedup.Local, int) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l := dedup.NewLocal(dedup.Options{})
	for n := range 2 * dedup.DefaultLimit {
		keep(l, entry(n))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	return l, int(after.HeapAlloc) - int(before.HeapAlloc)
}

func BenchmarkFind(b *testing.B) {
	l, size := filled()
	b.ReportMetric(float64(size)/dedup.DefaultLimit, "B/answer")
	for b.Loop() {
		find(l, dedup.KeyOf("u-ana", "m-20000"))
	}
}

func BenchmarkKeep(b *testing.B) {
	l, _ := filled()
	e := entry(0)
	for n := 0; b.Loop(); n++ {
		e.Key[0], e.Key[1], e.Key[2] = byte(n), byte(n>>8), byte(n>>16)
		keep(l, e)
	}
}
