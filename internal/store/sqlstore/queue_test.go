package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// gate holds the writer at its next commit.
type gate struct {
	reached chan struct{}
	open    chan struct{}
	once    sync.Once
}

func newGate() *gate { return &gate{reached: make(chan struct{}), open: make(chan struct{})} }

// hook holds the first commit that comes once arm was called.
func (g *gate) hook(armed <-chan struct{}) hook {
	return func(query string, _ []any) error {
		if query != sqliteStatements.commit {
			return nil
		}
		select {
		case <-armed:
			g.once.Do(func() {
				close(g.reached)
				<-g.open
			})
		default:
		}
		return nil
	}
}

// heldWorld is a world whose writer hangs in the commit of one message to "c",
// until gate.open is closed.
func heldWorld(t *testing.T, opts Options) (w *world, g *gate, first chan store.Appended) {
	t.Helper()
	g = newGate()
	armed := make(chan struct{})
	opts.hook = g.hook(armed)
	w = newWorld(t, opts)
	w.group("c", "ana", "ben")
	close(armed)
	first = make(chan store.Appended, 1)
	a := w.msg("ana", "c", "first", "held")
	go func() { first <- w.Append(t.Context(), []store.Append{a})[0] }()
	<-g.reached
	return w, g, first
}

func TestWhatComesDuringACommitSharesTheNext(t *testing.T) {
	w, g, first := heldWorld(t, Options{})
	before := w.Stats().Commits
	var wg sync.WaitGroup
	const n = 100
	for i := range n {
		a := w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), "x")
		wg.Go(func() {
			if out := w.Append(t.Context(), []store.Append{a})[0]; out.Err != nil {
				t.Error(out.Err)
			}
		})
	}
	wg.Go(func() {
		if _, err := w.Hello(t.Context(), store.Hello{User: "ana", Device: "d", Install: "x"}); err != nil {
			t.Error(err)
		}
	})
	waitFor(t, "the queue to fill", func() bool { return w.Stats().Queue == n+1 })
	close(g.open)
	wg.Wait()
	if out := <-first; out.Err != nil || out.Seq != 1 {
		t.Errorf("the held one: %+v", out)
	}
	if got := w.Stats().Commits - before; got != 2 {
		t.Errorf("%d commits, want one for the held message and one for all others", got)
	}
	if got := len(w.whole("ana", "c")); got != n+1 {
		t.Errorf("%d events, want %d", got, n+1)
	}
}

func TestALoneWriteWaitsForNobody(t *testing.T) {
	w := newWorld(t, Options{})
	w.group("c", "ana")
	before := w.Stats()
	for i := range 10 {
		w.sends(w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), "x"))
	}
	after := w.Stats()
	if after.Commits-before.Commits != 10 || after.Items-before.Items != 10 {
		t.Errorf("from %+v to %+v; want a commit for each", before, after)
	}
}

func TestWithoutGroupCommitEachItemHasItsOwn(t *testing.T) {
	w := newWorld(t, Options{NoGroupCommit: true})
	w.group("c", "ana")
	_, err := w.Hello(t.Context(), store.Hello{User: "ana", Device: "d", Install: "x"})
	w.must(err)
	before := w.Stats().Commits
	var items []store.Append
	for i := range 10 {
		items = append(items, w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), "x"))
	}
	for i, out := range w.Append(t.Context(), items) {
		if out.Err != nil || out.Seq != impart.Seq(i+1) {
			t.Errorf("%d: %+v", i, out)
		}
	}
	acks := []store.Advance{
		{User: "ana", Device: "d", Install: 1, Conv: "c", Seq: 1}, {User: "ana", Device: "d", Install: 1, Conv: "c", Seq: 3},
	}
	for i, out := range w.Advance(t.Context(), acks) {
		if out.Err != nil || out.Delivered != acks[i].Seq {
			t.Errorf("ack %d: %+v", i, out)
		}
	}
	for _, out := range w.MarkRead(t.Context(), []store.MarkRead{{User: "ana", Conv: "c", Seq: 1}, {User: "ana", Conv: "c", Seq: 2}}) {
		if out.Err != nil || !out.Moved {
			t.Errorf("read: %+v", out)
		}
	}
	if got := w.Stats().Commits - before; got != 14 {
		t.Errorf("%d commits for 14 items", got)
	}
}

func TestALargeCallIsCutIntoTransactions(t *testing.T) {
	w := newWorld(t, Options{MaxBatch: 7})
	w.group("c", "ana")
	before := w.Stats().Commits
	var items []store.Append
	for i := range 30 {
		items = append(items, w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), "x"))
	}
	for i, out := range w.Append(t.Context(), items) {
		if out.Err != nil || out.Seq != impart.Seq(i+1) {
			t.Errorf("%d: %+v", i, out)
		}
	}
	if got := w.Stats().Commits - before; got != 5 {
		t.Errorf("%d commits for 30 items in batches of 7", got)
	}
}

func TestLargeBodiesAreCutIntoTransactionsToo(t *testing.T) {
	w := newWorld(t, Options{})
	w.group("c", "ana")
	before := w.Stats().Commits
	large := strings.Repeat("x", maxBatchBytes/4)
	var items []store.Append
	for i := range 10 {
		items = append(items, w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), large))
	}
	w.must(w.stored(items...))
	if got := w.Stats().Commits - before; got != 3 {
		t.Errorf("%d commits for 10 bodies of a quarter of what fits", got)
	}
	q := queue{maxItems: 1000, wake: make(chan struct{}, 1)}
	w.must(q.push([]*op{{items: 1, bytes: 10}, {items: 1, bytes: maxBatchBytes - 10}, {items: 1, bytes: 2 * maxBatchBytes}, {items: 1, bytes: 1}}))
	for i, want := range []int{2, 1, 1, 0} {
		if ops, _ := q.take(100, nil); len(ops) != want {
			t.Errorf("transaction %d has %d ops, want %d", i, len(ops), want)
		}
	}
}

func TestAFullQueueIsOverloaded(t *testing.T) {
	w, g, first := heldWorld(t, Options{MaxQueue: 10})
	var wg sync.WaitGroup
	for i := range 10 {
		a := w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), "x")
		wg.Go(func() {
			if out := w.Append(t.Context(), []store.Append{a})[0]; out.Err != nil {
				t.Error(out.Err)
			}
		})
	}
	waitFor(t, "the queue to fill", func() bool { return w.Stats().Queue == 10 })
	refused := w.msg("ana", "c", "refused", "one too many")
	for what, err := range map[string]error{
		"append": w.Append(t.Context(), []store.Append{refused})[0].Err,
		"ack":    w.Advance(t.Context(), []store.Advance{{User: "ana", Conv: "c"}})[0].Err,
		"read":   w.MarkRead(t.Context(), []store.MarkRead{{User: "ana", Conv: "c"}})[0].Err,
		"hello":  second(w.Hello(t.Context(), store.Hello{User: "ana", Device: "d"})),
	} {
		if e := impart.AsError(err); e == nil || e.Code != impart.Overloaded || e.RetryAfter <= 0 || !e.Code.Retry() {
			t.Errorf("%s: %v, want OVERLOADED with a time to wait", what, err)
		}
	}
	if _, err := w.Page(t.Context(), store.PageQuery{User: "ana", Conv: "c", Limit: 1, MaxBytes: 1}); err != nil {
		t.Errorf("reading is refused too: %v", err)
	}
	close(g.open)
	wg.Wait()
	<-first
	w.sends(refused)
	if got := len(w.whole("ana", "c")); got != 12 {
		t.Errorf("%d events, want 12", got)
	}
}

func second[T any](_ T, err error) error { return err }

func TestLargeBodiesFillTheQueueToo(t *testing.T) {
	q := queue{maxItems: 1000, wake: make(chan struct{}, 1)}
	push := func(bytes int) error { return q.push([]*op{{items: 1, bytes: bytes}}) }
	if err := push(2 * maxQueueBytes); err != nil {
		t.Errorf("into an empty queue goes whatever fits a frame: %v", err)
	}
	if err := push(1); impart.CodeOf(err) != impart.Overloaded {
		t.Errorf("past %d bytes: %v, want OVERLOADED", maxQueueBytes, err)
	}
	if ops, _ := q.take(10, nil); len(ops) != 1 {
		t.Fatalf("took %d ops", len(ops))
	}
	if err := push(1); err != nil {
		t.Errorf("after it was taken: %v", err)
	}
}

func TestWhoGivesUpBeforeTheTransactionWritesNothing(t *testing.T) {
	w, g, first := heldWorld(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	a := w.msg("ana", "c", "gone", "never mind")
	go func() { gone <- w.Append(ctx, []store.Append{a})[0].Err }()
	waitFor(t, "it to queue", func() bool { return w.Stats().Queue == 1 })
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) || impart.CodeOf(err) != impart.Unavailable {
		t.Errorf("got %v, want the context's error", err)
	}
	close(g.open)
	<-first
	w.sends(w.msg("ana", "c", "second", "x"))
	if got := w.whole("ana", "c"); len(got) != 2 || got[1].CMID != "second" {
		t.Errorf("the log is %+v", got)
	}
}

func TestWhoGivesUpDuringTheTransactionDoesNotHoldIt(t *testing.T) {
	g := newGate()
	armed := make(chan struct{})
	w := newWorld(t, Options{hook: g.hook(armed)})
	w.group("c", "ana")
	close(armed)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	items := []store.Append{w.msg("ana", "c", "k", "started")}
	go func() { gone <- w.Append(ctx, items)[0].Err }()
	<-g.reached
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	items[0].Body = "changed by the caller, who has it back"
	close(g.open)
	w.sends(w.msg("ana", "c", "l", "next"))
	if got := w.whole("ana", "c"); len(got) != 2 || got[0].Body != "started" {
		t.Errorf("the log is %+v", got)
	}
}

func TestCloseFinishesWhatIsQueued(t *testing.T) {
	w, g, first := heldWorld(t, Options{})
	var wg sync.WaitGroup
	for i := range 20 {
		a := w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), "x")
		wg.Go(func() {
			if out := w.Append(t.Context(), []store.Append{a})[0]; out.Err != nil {
				t.Errorf("what was queued before Close: %v", out.Err)
			}
		})
	}
	waitFor(t, "the queue to fill", func() bool { return w.Stats().Queue == 20 })
	closed := make(chan error, 1)
	go func() { closed <- w.Close() }()
	waitFor(t, "Close to begin", func() bool { return impart.CodeOf(w.Ping(t.Context())) == impart.Unavailable })
	close(g.open)
	wg.Wait()
	<-first
	w.must(<-closed)
	for what, err := range map[string]error{
		"append": w.Append(t.Context(), []store.Append{{}})[0].Err,
		"hello":  second(w.Hello(t.Context(), store.Hello{})),
		"page":   second(w.Page(t.Context(), store.PageQuery{})),
	} {
		if !refused(err) || impart.CodeOf(err) != impart.Unavailable {
			t.Errorf("%s after Close: %v, want UNAVAILABLE", what, err)
		}
	}
	w.open(Options{})
	if got := len(w.whole("ana", "c")); got != 21 {
		t.Errorf("%d events, want 21", got)
	}
}

// waitFor spins until what is true; another goroutine makes it so.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for !is() {
		if t.Context().Err() != nil {
			t.Fatalf("still waiting for %s", what)
		}
		runtime.Gosched()
	}
}
