package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/conformance"
	lab "github.com/impart-im/impart/internal/lab/redis"
	"github.com/impart-im/impart/internal/pending"
)

// set makes a gateway's set. Its lease lasts, unless a test wants otherwise.
func (w *world) set(c *Client, gateway string, change func(*PendingConfig)) *Pending {
	w.Helper()
	cfg := PendingConfig{Gateway: gateway, Lease: time.Minute}
	if change != nil {
		change(&cfg)
	}
	p := NewPending(c, cfg)
	w.Cleanup(func() {
		if err := p.Close(); err != nil {
			w.Error(err)
		}
	})
	return p
}

func TestThePendingSetKeepsTheContract(t *testing.T) {
	for shape, url := range map[string]func(*testing.T) string{
		"one server": func(t *testing.T) string { return single.get(t).URL() },
		"cluster":    func(t *testing.T) string { return cluster.get(t).URL() },
	} {
		t.Run(shape, func(t *testing.T) {
			c := newWorld(t, url(t)).client()
			conformance.Pending(t, func(t *testing.T) conformance.PendingSubject {
				var clock atomic.Int64 // stands still between two steps, which no real one does
				clock.Store(time.Now().UnixMilli())
				w := newWorld(t, url(t))
				set := w.set(c, fresh("gw"), func(cfg *PendingConfig) { cfg.now = clock.Load })
				return conformance.PendingSubject{Set: set, Advance: func(d time.Duration) {
					length(t, set) // what was noted until now is of the time until now
					clock.Add(d.Milliseconds())
				}}
			})
		})
	}
}

func entry(user impart.UserID, conv impart.ConvID, conn uint64, seq impart.Seq) pending.Entry {
	return pending.Entry{Key: pending.Key{User: user, Device: "phone", Conv: conv, Conn: conn}, Seq: seq, Ladder: pending.DefaultLadder}
}

func do(t testing.TB, server *lab.Server, args ...string) string {
	t.Helper()
	out, err := server.Do(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func length(t testing.TB, set *Pending) int {
	t.Helper()
	n, err := set.Len(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func due(t testing.TB, set *Pending, limit int) []pending.Entry {
	t.Helper()
	entries, err := set.Due(t.Context(), limit)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func inherit(t testing.TB, set *Pending, limit int) []pending.Entry {
	t.Helper()
	entries, err := set.Inherit(t.Context(), limit)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// What seed 002 tells an operator to run, and what it then sees.
func TestAnOperatorReadsTheSet(t *testing.T) {
	t.Parallel()
	server := single.get(t)
	w := newWorld(t, server.URL())
	gateway := fresh("gw")
	set := w.set(w.client(), gateway, nil)
	began := time.Now().UnixMilli()
	if err := set.Register(t.Context(), entry("ana", "c-1", 7, 41), entry("ben <&>", "c-1", 8, impart.MaxNumber)); err != nil {
		t.Fatal(err)
	}
	if n := length(t, set); n != 2 {
		t.Fatalf("the set has %d flows", n)
	}
	key := "ack:pending:" + gateway
	if got := do(t, server, "ZCARD", key); got != "2" {
		t.Errorf("ZCARD is %s", got)
	}
	lines := strings.Split(do(t, server, "ZRANGE", key, "0", "2", "WITHSCORES"), "\n")
	if len(lines) != 4 {
		t.Fatalf("ZRANGE gives %q", lines)
	}
	for i := 0; i < len(lines); i += 2 {
		var m map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &m); err != nil || m["conv_id"] != "c-1" || m["device"] != "phone" || m["uid"] == nil || m["conn_id"] == nil {
			t.Errorf("a member is %s: %v", lines[i], err)
		}
		var due int64
		if _, err := fmt.Sscan(lines[i+1], &due); err != nil || due < began+900 || due > time.Now().UnixMilli()+1100 {
			t.Errorf("a score is %s, want Unix ms in about a second", lines[i+1])
		}
		state := do(t, server, "HGET", "{"+key+"}:flows", lines[i])
		want := `{"seq":41,"attempts":1,"ladder_ms":[1000,3000,7000,15000]}`
		if m["uid"] != "ana" {
			want = fmt.Sprintf(`{"seq":%d,"attempts":1,"ladder_ms":[1000,3000,7000,15000]}`, impart.MaxNumber)
		}
		if state != want {
			t.Errorf("the state is %s, want %s", state, want)
		}
	}
}

func TestAllKeysOfASetAreInOneSlot(t *testing.T) {
	t.Parallel()
	c := cluster.get(t)
	for _, gateway := range []string{"gw-1", "host.example-a1b2c3", "odd{name}", "}{", "{}", "{{x}}"} {
		slots := map[string][]string{}
		for _, key := range keysOf(gateway) {
			slot := do(t, c.Nodes[0], "CLUSTER", "KEYSLOT", key)
			slots[slot] = append(slots[slot], key)
		}
		if len(slots) != 1 {
			t.Errorf("the keys of %s are in %v", gateway, slots)
		}
	}
	if got := keysOf("gw-1")[0]; got != "ack:pending:gw-1" {
		t.Errorf("the set is called %s", got)
	}
}

// Whatever is noted before Redis hears of it: it hears one change a flow, which does
// what all of them would have done.
func TestChangesThatWaitAreOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, single.get(t).URL())
	c := w.client()
	steps := []way{register, moved, settle}
	var clock atomic.Int64
	before := func(set *Pending) { // there is such a flow already, and it has been tried again
		e := entry("ana", "c", 1, 20)
		e.Ladder = pending.Ladder{time.Second, time.Hour, time.Hour, time.Hour}
		if err := set.Register(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		length(t, set)
		clock.Add(2000)
		due(t, set, 1)
	}
	for n := range 162 { // every row of four steps, twice
		clock.Store(int64(n) * 1_000_000)
		still := func(cfg *PendingConfig) { cfg.now = clock.Load }
		slow, quick := w.set(c, fresh("slow"), still), w.set(c, fresh("quick"), still)
		if n >= 81 {
			before(slow)
			clock.Store(int64(n) * 1_000_000)
			before(quick)
		}
		var row []way
		func() {
			slow.talk <- struct{}{}        // it hears nothing until all is noted
			defer func() { <-slow.talk }() // also when a check fails: closing the set waits for it
			for i, rest := 0, n; i < 4; i, rest = i+1, rest/3 {
				e := entry("ana", "c", 1, impart.Seq(10-i))
				e.Ladder[0] += time.Duration(i) * time.Second
				row = append(row, steps[rest%3])
				for _, set := range []*Pending{slow, quick} {
					switch steps[rest%3] {
					case register:
						_ = set.Register(t.Context(), e)
					case moved:
						_ = set.Moved(t.Context(), e)
					default:
						_ = set.Settle(t.Context(), e.Key)
					}
				}
				length(t, quick) // tells what waits
			}
		}()
		length(t, slow)
		clock.Add(10_000)
		one, other := due(t, slow, 9), due(t, quick, 9)
		if !slices.Equal(one, other) {
			t.Errorf("%v: at once %+v, one by one %+v", row, one, other)
		}
	}
}

// Whoever has flows is known to live, so that its silence is noticed however early it
// dies.
func TestNoFlowComesBeforeItsGatewayIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, single.get(t).URL())
	name := fresh("gw")
	set := w.set(w.client(), name, func(cfg *PendingConfig) { cfg.Lease = time.Hour }) // and a heartbeat in twelve minutes
	until(t, "a flow in the set", func() bool {
		return set.Register(t.Context(), entry("ana", "c", 1, 7)) == nil && length(t, set) == 1
	})
	if do(t, single.get(t), "ZSCORE", gatewaysKey, name) == "" {
		t.Error("nobody knows of this gateway")
	}
}

// A gateway that dies leaves its set; one of the others takes it over, once.
func TestASetIsInheritedOnce(t *testing.T) {
	t.Parallel()
	server, err := lab.Start(t.Context(), lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	w := newWorld(t, server.URL())
	brief := func(cfg *PendingConfig) { cfg.Lease = 2 * time.Second }
	dead := w.set(w.client(), "gw-dead", brief)
	const flows = 950
	for i := range flows {
		if err := dead.Register(t.Context(), entry("ana", impart.ConvID(fmt.Sprint(i)), 1, 7)); err != nil {
			t.Fatal(err)
		}
	}
	if n := length(t, dead); n != flows {
		t.Fatalf("the set has %d flows", n)
	}
	heirs := []*Pending{w.set(w.client(), "gw-1", brief), w.set(w.client(), "gw-2", brief), w.set(w.client(), "gw-3", brief)}
	for _, heir := range heirs {
		if err := heir.Register(t.Context(), entry("own", "c", 1, 7)); err != nil {
			t.Fatal(err)
		}
	}
	// Nobody takes what is alive.
	for range 3 {
		until(t, "a heartbeat", func() bool { return do(t, server, "ZCARD", gatewaysKey) == "4" })
		for _, heir := range heirs {
			if got := inherit(t, heir, 100); len(got) > 0 {
				t.Fatalf("%d flows of a living gateway were taken", len(got))
			}
		}
	}
	// Not even if it is taken for dead.
	if got, err := heirs[0].inherit(t.Context(), "gw-dead", 100); err != nil || len(got.flows) > 0 {
		t.Fatalf("%d flows of a living gateway were taken: %v", len(got.flows), err)
	}
	freeze(dead)
	var mu sync.Mutex
	var wg sync.WaitGroup
	taken := map[impart.ConvID]int{}
	for _, heir := range heirs {
		wg.Go(func() {
			until(t, "the set of the dead gateway being taken over", func() bool {
				got, err := heir.Inherit(t.Context(), 100)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, e := range got {
					taken[e.Conv]++
					if e.User != "ana" || e.Conn != 1 || e.Seq != 7 {
						t.Errorf("took %+v", e)
					}
				}
				return len(taken) == flows
			})
		})
	}
	wg.Wait()
	for conv, n := range taken {
		if n != 1 {
			t.Errorf("the flow of %s was taken %d times", conv, n)
		}
	}
	until(t, "the dead gateway being forgotten", func() bool {
		for _, heir := range heirs {
			if got := inherit(t, heir, 100); len(got) > 0 {
				t.Errorf("%d flows more were taken", len(got))
			}
		}
		return do(t, server, "ZCARD", gatewaysKey) == "3" &&
			do(t, server, "EXISTS", keysOf("gw-dead")[0], keysOf("gw-dead")[1], keysOf("gw-dead")[2]) == "0"
	})
	for _, heir := range heirs {
		if n := length(t, heir); n != 1 {
			t.Errorf("an heir has %d flows of its own", n)
		}
	}
	// It was only paused: it finds its lease gone, and starts anew.
	thaw(dead)
	if err := dead.Register(t.Context(), entry("ana", "new", 1, 8)); err != nil {
		t.Fatal(err)
	}
	if n := length(t, dead); n != 1 {
		t.Errorf("a gateway that comes back has %d flows", n)
	}
	until(t, "being known again", func() bool { return do(t, server, "ZCARD", gatewaysKey) == "4" })
}

// freeze is what SIGSTOP does to a set: nothing of it speaks any more.
func freeze(p *Pending) { p.talk <- struct{}{} }
func thaw(p *Pending)   { <-p.talk }

func TestALaterProcessOfTheNameHasTheSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, single.get(t).URL())
	gateway := fresh("gw")
	first := w.set(w.client(), gateway, nil) // whose next heartbeat is in 12 s
	if err := first.Register(t.Context(), entry("ana", "old", 1, 7)); err != nil {
		t.Fatal(err)
	}
	if n := length(t, first); n != 1 {
		t.Fatal(n)
	}
	second := w.set(w.client(), gateway, func(cfg *PendingConfig) { cfg.Lease = time.Second })
	if n := length(t, second); n != 0 {
		t.Errorf("it has %d flows of the one before it", n)
	}
	soonDue := entry("ana", "new", 1, 7)
	soonDue.Ladder = pending.Ladder{time.Millisecond, time.Hour, time.Hour, time.Hour}
	if err := second.Register(t.Context(), soonDue); err != nil {
		t.Fatal(err)
	}
	length(t, second)
	if got, err := first.Due(t.Context(), 10); err == nil || len(got) > 0 {
		t.Errorf("the first one takes %d flows of the second one: %v", len(got), err)
	}
	until(t, "the first one knowing that it has no set", func() bool {
		_, err := first.Due(t.Context(), 10)
		return err != nil && strings.Contains(err.Error(), "IM_GATEWAY_ID")
	})
	if n := length(t, second); n != 1 {
		t.Errorf("the second one has %d flows", n)
	}
	// When the second one goes, the first one has it again.
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the first one having a set again", func() bool { _, err := first.Due(t.Context(), 10); return err == nil })
}

// Both of two processes with one name say so while both live, and not longer; who comes
// back after a death of which Redis has not heard yet is no second one.
func TestTwoProcessesOfOneNameKnowIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, single.get(t).URL())
	gateway := fresh("gw")
	var told [2]linesOf
	named := func(i int) *Pending {
		return w.set(w.client(), gateway, func(cfg *PendingConfig) {
			cfg.Lease, cfg.Log = time.Second, slog.New(slog.NewTextHandler(&told[i], nil))
		})
	}
	elder := named(0)
	length(t, elder)
	newcomer := named(1)
	until(t, "both knowing of each other", func() bool { return elder.Namesake() && newcomer.Namesake() })
	if err := newcomer.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the elder being alone", func() bool { return !elder.Namesake() })
	for i := range told {
		if n := told[i].count("give each its own IM_GATEWAY_ID"); n != 1 {
			t.Errorf("process %d warned %d times", i, n)
		}
	}
	freeze(elder) // as if it had died
	defer thaw(elder)
	next := named(1)
	length(t, next)
	for range 5 {
		_, _ = ask(t.Context(), next, func(ctx context.Context) ([]string, error) { return next.announce(ctx, false) })
	}
	if next.Namesake() {
		t.Error("a process takes the dead one before it for a living one")
	}
}

// linesOf holds a log.
type linesOf struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *linesOf) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *linesOf) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func TestWhatIsClosedLeavesNothing(t *testing.T) {
	t.Parallel()
	server := single.get(t)
	w := newWorld(t, server.URL())
	gateway := fresh("gw")
	set := w.set(w.client(), gateway, nil)
	if err := set.Register(t.Context(), entry("ana", "c", 1, 7)); err != nil {
		t.Fatal(err)
	}
	length(t, set)
	for range 2 {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	}
	keys := keysOf(gateway)
	if got := do(t, server, "EXISTS", keys[0], keys[1], keys[2]); got != "0" {
		t.Errorf("%s keys are left", got)
	}
	if _, err := set.Due(t.Context(), 1); err == nil {
		t.Error("a closed set answers")
	}
}

// What nobody here has written is given up, as seed 002 says.
func TestWhatCannotBeReadIsRemoved(t *testing.T) {
	t.Parallel()
	server := single.get(t)
	w := newWorld(t, server.URL())
	gateway := fresh("gw")
	set := w.set(w.client(), gateway, nil)
	if err := set.Register(t.Context(), entry("ana", "c", 1, 7)); err != nil {
		t.Fatal(err)
	}
	length(t, set)
	for _, member := range []string{"garbage", `{"uid":"x"}`} {
		do(t, server, "ZADD", keysOf(gateway)[0], "1", member)
	}
	do(t, server, "HSET", keysOf(gateway)[1], "garbage", "garbage", `{"uid":"x"}`, `{"seq":1e99,"attempts":1}`)
	if got := due(t, set, 10); len(got) > 0 {
		t.Errorf("due: %+v", got)
	}
	if n := length(t, set); n != 1 {
		t.Errorf("the set has %d flows", n)
	}
}

// Keys of Impart's names that are of another type are freed: the set belongs there.
func TestKeysOfAnotherTypeAreFreed(t *testing.T) {
	t.Parallel()
	server := single.get(t)
	w := newWorld(t, server.URL())
	gateway := fresh("gw")
	keys := keysOf(gateway)
	do(t, server, "SET", keys[0], "x")
	do(t, server, "SET", keys[1], "x")
	do(t, server, "SADD", keys[2], "x")
	do(t, server, "SADD", keys[3], "x")
	set := w.set(w.client(), gateway, func(cfg *PendingConfig) { cfg.Lease = time.Second })
	until(t, "the set being the gateway's", func() bool { return set.Trouble() == nil && do(t, server, "TYPE", keys[2]) == "string" })
	do(t, server, "DEL", keys[0])
	do(t, server, "SADD", keys[0], "x")
	until(t, "the set being free again", func() bool { return do(t, server, "TYPE", keys[0]) != "set" })
	length(t, set)
}
