package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// scriptedEngine is an engine whose transactions go as a story says.
type scriptedEngine struct {
	engine
	mu     sync.Mutex
	held   map[impart.ConvID]bool // a transaction with one of these fails
	shown  bool                   // stuck finds them
	fates  []fate                 // of the first transactions
	stored []string               // in the order in which they were
	tries  int
	redone int // with redo set
}

var errRow = errors.New("a row is held")

func (e *scriptedEngine) transact(w *writer, ops []*op) (error, bool) {
	return w.s.transact(w, ops, func(a *attempts) (fate, error) { return e.attempt(ops, a) },
		func(err error) error { return err }, func(err error) int {
			if errors.Is(err, errRow) {
				return 1
			}
			return 0
		})
}

func (e *scriptedEngine) attempt(ops []*op, a *attempts) (fate, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tries++
	if a.redo {
		e.redone++
	}
	if len(e.fates) > 0 {
		first := e.fates[0]
		e.fates = e.fates[1:]
		return first, errors.New("scripted")
	}
	for _, o := range ops {
		for i := range o.appends {
			if e.held[o.appends[i].Conv] {
				return passing, errRow
			}
		}
	}
	for _, o := range ops {
		for i := range o.appends {
			e.stored = append(e.stored, string(o.appends[i].CMID))
			o.appended[i] = store.Appended{Seq: impart.Seq(len(e.stored))}
		}
	}
	return failed, nil
}

func (e *scriptedEngine) stuck([]*group) (map[aim]error, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := map[aim]error{}
	for conv := range e.held {
		if e.shown {
			out[aim{conv: conv}] = errHeld
		}
	}
	return out, nil
}

func (*scriptedEngine) idle(*writer) {}
func (*scriptedEngine) close() error { return nil }

func (e *scriptedEngine) set(held ...impart.ConvID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = map[impart.ConvID]bool{}
	for _, conv := range held {
		e.held[conv] = true
	}
}

// inStory runs a story with a store on a scripted engine, in a time of its own.
func inStory(t *testing.T, opts Options, story func(t *testing.T, w *world, e *scriptedEngine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		opts.setDefaults()
		e := &scriptedEngine{}
		w := &world{t: t, Store: &Store{opts: opts, opened: time.Now(), engine: e}}
		w.startLanes(laneCounts{appends: 1, cursors: 1, direct: 1})
		story(t, w, e)
		w.must(w.Close())
	})
}

// says sends a message to a conversation, named after it, and tells what became of it.
func (w *world) says(conv, cmid string) <-chan error {
	answer := make(chan error, 1)
	item := w.msg("ana", impart.ConvID(conv), impart.CMID(cmid), "x")
	go func() { answer <- w.Append(context.Background(), []store.Append{item})[0].Err }()
	synctest.Wait()
	return answer
}

// What comes for a held conversation waits behind what waits already, also when it
// comes at the very moment at which the row is free; others do not wait.
func TestWhatWaitsIsDoneInItsOrder(t *testing.T) {
	for _, shown := range []bool{false, true} {
		inStory(t, Options{}, func(t *testing.T, w *world, e *scriptedEngine) {
			e.shown = shown
			e.set("a")
			first, second, other := w.says("a", "1"), w.says("a", "2"), w.says("b", "other")
			w.must(<-other)
			time.Sleep(time.Second)
			e.set()
			third := w.says("a", "3")
			for _, answer := range []<-chan error{first, second, third} {
				w.must(<-answer)
			}
			if got := strings.Join(e.stored, " "); got != "other 1 2 3" {
				t.Errorf("stored were %s", got)
			}
			time.Sleep(2 * asideLinger)
			if n := w.lanes.appends[0].waitlist.known.Load(); n != 0 {
				t.Errorf("%d conversations are remembered when nothing waits", n)
			}
		})
	}
}

// The one that is at fault is found by halves, and all others of its batch are answered
// without a wait.
func TestTheFaultIsFoundByHalves(t *testing.T) {
	inStory(t, Options{}, func(t *testing.T, w *world, e *scriptedEngine) {
		e.set("c-37")
		var items []store.Append
		for i := range 64 {
			items = append(items, w.msg("ana", impart.ConvID(fmt.Sprint("c-", i)), impart.CMID(fmt.Sprint(i)), "x"))
		}
		began := time.Now()
		var out []store.Appended
		done := make(chan struct{})
		go func() { out = w.Append(context.Background(), items); close(done) }()
		synctest.Wait()
		e.mu.Lock()
		if len(e.stored) != 63 || time.Since(began) != 0 {
			t.Errorf("%d of 63 are stored after %v", len(e.stored), time.Since(began))
		}
		if e.tries > 2+2*6 { // 64 is halved six times
			t.Errorf("it took %d transactions", e.tries)
		}
		e.mu.Unlock()
		<-done
		for i := range out {
			if (out[i].Err != nil) != (i == 37) {
				t.Errorf("message %d: %v", i, out[i].Err)
			}
		}
		if e := impart.AsError(out[37].Err); e != nil && (e.Code != impart.Unavailable || e.RetryAfter == 0) {
			t.Errorf("the held one's answer is %+v", e)
		}
		if took := time.Since(began); took < patience || took > patience+2*asideRestMost {
			t.Errorf("it was given up after %v", took)
		}
	})
}

// After a commit whose answer was lost every part of the batch is tried as one that may
// be there, and is never told that nothing was written.
func TestTheUnknownStaysUnknownInParts(t *testing.T) {
	inStory(t, Options{}, func(t *testing.T, w *world, e *scriptedEngine) {
		e.fates = []fate{unknown}
		e.set("a")
		out := w.Append(t.Context(), []store.Append{w.msg("ana", "a", "1", "x"), w.msg("ana", "b", "2", "x")})
		if e.redone != e.tries-1 {
			t.Errorf("%d of %d transactions after the first looked for what was there", e.redone, e.tries-1)
		}
		if out[0].Err == nil || !strings.Contains(out[0].Err.Error(), "unknown") || out[1].Err != nil {
			t.Errorf("the outcomes are %+v", out)
		}
	})
}

// Of one key to two conversations that are not done together the first keeps it.
func TestAKeyOfTwoConversationsWaitsForTheFirst(t *testing.T) {
	inStory(t, Options{}, func(t *testing.T, w *world, e *scriptedEngine) {
		e.set("a")
		time.AfterFunc(time.Second, func() { e.set() })
		out := w.Append(t.Context(), []store.Append{w.msg("ana", "a", "1", "x"), w.msg("ana", "b", "1", "x"), w.msg("ana", "c", "2", "x")})
		if out[0].Err != nil || impart.CodeOf(out[1].Err) != impart.Unavailable || out[2].Err != nil {
			t.Errorf("the outcomes are %+v", out)
		}
	})
}

// One conversation cannot take the whole waiting room, and what does not fit is told at
// once.
func TestWhatWaitsIsBounded(t *testing.T) {
	inStory(t, Options{MaxQueue: 8}, func(t *testing.T, w *world, e *scriptedEngine) {
		e.set("a", "b")
		e.shown = true
		var codes []impart.Code
		var answers []<-chan error
		for i := range 4 {
			answers = append(answers, w.says("a", fmt.Sprint(i)))
		}
		answers = append(answers, w.says("b", "b"))
		if n := w.Stats().Queue; n != 3 {
			t.Errorf("%d wait", n)
		}
		e.set()
		for _, answer := range answers {
			codes = append(codes, impart.CodeOf(<-answer))
		}
		if want := []impart.Code{"", "", impart.Overloaded, impart.Overloaded, ""}; !slices.Equal(codes, want) {
			t.Errorf("the outcomes are %q", codes)
		}
	})
}

// A store that closes does not wait for what is held up.
func TestAClosingStoreRefusesWhatWaits(t *testing.T) {
	inStory(t, Options{}, func(t *testing.T, w *world, e *scriptedEngine) {
		e.set("a")
		answer := w.says("a", "1")
		began := time.Now()
		w.must(w.Close())
		if impart.CodeOf(<-answer) != impart.Unavailable || time.Since(began) > asideRestMost {
			t.Errorf("it closed after %v", time.Since(began))
		}
	})
}

// A store that fails says so now and then, and how often it did not.
func TestAFailingStoreDoesNotFloodTheLog(t *testing.T) {
	var log lockedBuffer
	inStory(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, w *world, e *scriptedEngine) {
		e.fates = make([]fate, 1000) // failed
		for i := range 20 {
			if i == 19 {
				time.Sleep(logEvery)
			}
			cmid := impart.CMID(fmt.Sprint(i))
			w.Append(t.Context(), []store.Append{w.msg("ana", "a", cmid+"-1", "x"), w.msg("ana", "a", cmid+"-2", "x")})
		}
		if got := log.String(); strings.Count(got, "one by one") != 2 || !strings.Contains(got, "writes=2 unlogged=18") {
			t.Errorf("the log says\n%s", got)
		}
	})
}
