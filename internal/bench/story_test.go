package bench

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// short is long enough for something to happen in.
const short = 200 * time.Millisecond

func TestSendIsMeasuredAndReadBack(t *testing.T) {
	w := newWorld(t)
	w.wants(w.Send(t.Context(), SendLoad{Senders: 4, Conversations: 3, Turns: 50, Duration: short, Rounds: 1, Share: 0.25, Naive: true, Raw: true}), "")
	for _, name := range []string{"one sender alone", "a lone commit", "4 senders", "one transaction per message", "the store alone"} {
		if r := w.run(name); r.Latency == nil || r.Latency.P50 <= 0 {
			t.Errorf("%s has no latency", name)
		}
	}
	closed, opened := w.run("4 senders"), w.Report.Runs[len(w.Report.Runs)-1]
	if closed.Loop != Closed || opened.Loop != Open {
		t.Errorf("loops %q and %q", closed.Loop, opened.Loop)
	}
	due, rate := opened.figure("due a second"), closed.figure("sends a second")
	if share := due / rate; share < 0.24 || share > 0.26 {
		t.Errorf("the open loop ran at %.0f a second of %.0f: %.2f", due, rate, share)
	}
	if len(w.Report.Ratios) != 5 {
		t.Errorf("%d ratios, want 5: %+v", len(w.Report.Ratios), w.Report.Ratios)
	}
}

// While one server has its turn, which may take minutes, the senders of the other one
// stay connected, though they read nothing.
func TestSendersOutlastTheTurnOfAnotherServer(t *testing.T) {
	w := newWorld(t)
	w.beat = 400 * time.Millisecond
	w.Start = func(ctx context.Context, naive bool) (*Target, error) {
		if naive { // the senders of the first server are connected by now
			<-time.After(5 * w.beat)
		}
		return w.start(ctx, naive)
	}
	w.wants(w.Send(t.Context(), SendLoad{Senders: 2, Conversations: 1, Turns: 5, Duration: short, Rounds: 1, Naive: true}), "")
}

// A server that goes away in the middle ends the run, and what it had answered by then
// is checked all the same.
func TestARunThatBreaksOffIsChecked(t *testing.T) {
	w := newWorld(t)
	var cut sync.Once
	w.Progress = func(p Progress) {
		if p.Window == "4 senders" && p.Done > 0 {
			cut.Do(func() { w.hangUp() })
		}
	}
	if err := w.Send(t.Context(), SendLoad{Senders: 4, Conversations: 2, Turns: 5, Duration: time.Minute}); err == nil {
		t.Error("the run came to its end")
	}
	if c := w.check("no message lost"); !c.OK {
		t.Error(c.Detail)
	}
	if n := w.run("4 senders").figure("sends"); n == 0 {
		t.Error("what was measured is not in the report")
	}
}

func TestFanoutReachesEveryDevice(t *testing.T) {
	w := newWorld(t)
	w.wants(w.Fanout(t.Context(), FanoutLoad{Devices: 10, Ahead: 8, Duration: short}), "")
	sends, pushes := w.run("one sender").figure("sends"), w.run("pushes")
	if sends == 0 || pushes.figure("pushes")+pushes.figure("events that a sync had to fetch") < 10*sends {
		t.Errorf("%v sends, %+v", sends, pushes.Figures)
	}
}

func TestPullCatchesUp(t *testing.T) {
	w := newWorld(t)
	w.wants(w.Pull(t.Context(), PullLoad{Devices: 2, Backlog: 2500, Duration: short}), "")
	if events := w.run("2 devices").figure("events"); int(events)%2500 != 0 || events == 0 {
		t.Errorf("%v events, of devices that lack 2500 each", events)
	}
}

func TestBaselineLosesAndRecovers(t *testing.T) {
	w := newWorld(t)
	w.wants(w.Baseline(t.Context(), BaselineLoad{Devices: 40, Multiple: 0.2, Duration: 2 * time.Second}), "")
	pushes := w.run("pushes at")
	if lost := pushes.figure("pushes lost by the devices on purpose"); lost == 0 {
		t.Error("nothing was lost on purpose")
	}
	if again := pushes.figure("delivered by sync, or once more"); again == 0 {
		t.Error("nothing was delivered again")
	}
	if acks := pushes.figure("acks a push"); acks == 0 || acks > 0.3 {
		t.Errorf("%.2f acks a push", acks)
	}
}

func TestBaselineFindsItsLimit(t *testing.T) {
	w := newWorld(t)
	w.wants(w.Baseline(t.Context(), BaselineLoad{Devices: 16, Multiple: 0.1, Step: short, FindLimit: true}), "")
	if c := w.check("a multiple was carried"); !c.OK {
		t.Error(c.Detail)
	}
	if len(w.Report.Notes) == 0 || !strings.Contains(w.Report.Notes[0], "is carried") {
		t.Errorf("notes %q", w.Report.Notes)
	}
}

func TestStormIsAnsweredAsDuplicates(t *testing.T) {
	w := newWorld(t)
	w.wants(w.Storm(t.Context(), StormLoad{Clients: 5, Messages: 3, Live: 2, Rate: 100, Duration: time.Second, Every: short}), "")
	if storms := w.run("live senders, in storms").figure("storms"); storms < 2 {
		t.Errorf("%v storms", storms)
	}
}

// TestRefusedForNowIsSentAgain: a refusal that may be repeated is counted, and
// the message counts from when it was due until it was stored.
func TestRefusedForNowIsSentAgain(t *testing.T) {
	w := newWorld(t)
	w.rate = 100
	w.wants(w.Send(t.Context(), SendLoad{Senders: 1, Conversations: 1, Turns: 3, Duration: time.Second, Rate: 150}), "")
	for _, name := range []string{"1 senders", "150 sends a second"} {
		if w.run(name).figure("refused for now, RATE_LIMITED") == 0 {
			t.Errorf("%s: nothing was refused: %+v", name, w.run(name).Figures)
		}
	}
	// 150 a second are due for a second, and 100 a second are taken: the last waits
	// about half a second.
	if l := w.run("150 sends a second").Latency; l.Count != 150 || l.Max < 300 {
		t.Errorf("%d sends, the longest %v ms", l.Count, l.Max)
	}
}

func TestInterruptedRunReportsWhatItHas(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.Progress = func(p Progress) {
		if p.Window == "4 senders" {
			cancel()
		}
	}
	start := time.Now()
	w.wants(w.Send(ctx, SendLoad{Senders: 4, Conversations: 2, Turns: 5, Duration: time.Hour}), "")
	if took := time.Since(start); took > time.Minute {
		t.Errorf("it went on for %v", took)
	}
	if w.run("4 senders").figure("sends") == 0 {
		t.Error("what was measured is gone")
	}
}

// spoiled is a store with a fault in what it reads.
type spoiled struct {
	store.Store
	page func(*impart.Page)
}

func (s spoiled) Page(ctx context.Context, q store.PageQuery) (impart.Page, error) {
	page, err := s.Store.Page(ctx, q)
	if len(page.Events) > 3 {
		s.page(&page)
	}
	return page, err
}

// TestFaultsFailTheRun plants what a bench is there to find.
func TestFaultsFailTheRun(t *testing.T) {
	for name, plant := range map[string]struct {
		page func(*impart.Page)
		want string
	}{
		"a message is lost": {func(p *impart.Page) { p.Events = append(p.Events[:1:1], p.Events[2:]...) }, "no message lost"},
		"the last one is lost": {func(p *impart.Page) {
			if !p.More {
				p.Events, p.Head, p.Through = p.Events[:len(p.Events)-1], p.Head-1, p.Through-1
			}
		}, "no message lost"},
		"a message is another":     {func(p *impart.Page) { p.Events[1].MID = "m-other" }, "no message lost"},
		"a message is there twice": {func(p *impart.Page) { p.Events[1].CMID = p.Events[0].CMID }, "no message twice"},
		"a seq is there twice":     {func(p *impart.Page) { p.Events[1] = p.Events[0] }, "no message twice"},
		"the head is wrong":        {func(p *impart.Page) { p.Head++ }, "heads equal counts"},
		"a stranger is in the log": {func(p *impart.Page) { p.Events[1].CMID = "not-of-this-run" }, "nothing in the logs that nobody sent"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.spoil = func(st store.Store) store.Store { return spoiled{st, plant.page} }
			w.wants(w.Send(t.Context(), SendLoad{Senders: 2, Conversations: 1, Turns: 5, Duration: short}), plant.want)
		})
	}
}

// withheld is a store that keeps events back from all users but the sender.
type withheld struct{ store.Store }

func (s withheld) Range(ctx context.Context, conv impart.ConvID, from, through impart.Seq, limit int) (store.Range, error) {
	r, err := s.Store.Range(ctx, conv, from, through, limit)
	r.Events = nil
	return r, err
}

func (s withheld) Page(ctx context.Context, q store.PageQuery) (impart.Page, error) {
	page, err := s.Store.Page(ctx, q)
	if len(page.Events) > 0 && q.User != "u-000" {
		page.Events, page.Through, page.More = page.Events[:1], page.Events[0].Seq, false
	}
	return page, err
}

func TestDeviceThatLacksSomethingFailsTheRun(t *testing.T) {
	w := newWorld(t)
	w.spoil = func(st store.Store) store.Store { return withheld{st} }
	w.patience = time.Second
	w.wants(w.Fanout(t.Context(), FanoutLoad{Devices: 3, Ahead: 2, Duration: short}), "every device has everything")
}
