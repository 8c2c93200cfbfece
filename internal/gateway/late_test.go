package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart"
)

// frozen is the rules when nothing of them answers: a caller waits for as long as it
// is patient.
type frozen struct {
	impart.Logic
	on atomic.Bool
}

func (f *frozen) Sync(ctx context.Context, s impart.Sync) (impart.Page, error) {
	if f.on.Load() {
		<-ctx.Done()
		return impart.Page{}, ctx.Err()
	}
	return f.Logic.Sync(ctx, s)
}

func (f *frozen) Send(ctx context.Context, sends []impart.Send) []impart.Sent {
	if !f.on.Load() {
		return f.Logic.Send(ctx, sends)
	}
	<-ctx.Done()
	sent := make([]impart.Sent, len(sends))
	for i := range sent {
		sent[i].Err = ctx.Err()
	}
	return sent
}

// inFrozen is inWorld with rules that can be frozen.
func inFrozen(t *testing.T, set func(*Config), story func(w *world, f *frozen)) {
	t.Helper()
	f := &frozen{}
	inWorld(t, func(c *Config) {
		f.Logic = c.Logic
		c.Logic = f
		if set != nil {
			set(c)
		}
	}, func(w *world) { story(w, f) })
}

func (cl *client) syncs(rid string) {
	cl.send(`{"t":"sync","rid":"%s","conv":"c-ab","after":0}`, rid)
}

// late wants frames that all are UNAVAILABLE and say when to come back.
func late(t *testing.T, frames []frame, want int) {
	t.Helper()
	if len(frames) != want {
		t.Errorf("%d answers, want %d: %v", len(frames), want, frames)
	}
	for _, f := range frames {
		if f["code"] != "UNAVAILABLE" || f.num("retry_after_ms") <= 0 {
			t.Errorf("answered %v, want UNAVAILABLE with retry_after_ms", f)
		}
	}
}

func TestRequestsThatWaitBehindOthersHaveNoMoreTimeThanThey(t *testing.T) {
	inFrozen(t, func(c *Config) { c.Heartbeat = time.Hour }, func(w *world, f *frozen) {
		ana := w.connect("u-ana", "d-phone")
		f.on.Store(true)
		for i := range 15 {
			ana.syncs(fmt.Sprint("s", i))
			ana.send(`{"t":"send","rid":"m%d","conv":"c-ab","cmid":"m%d","body":"x"}`, i, i)
		}
		time.Sleep(10 * time.Second)
		if early := ana.take(); len(early) != 0 {
			t.Errorf("answered before their time: %v", early)
		}
		ana.syncs("younger")
		time.Sleep(5 * time.Second)
		late(t, ana.take(), 30)
		time.Sleep(9 * time.Second)
		if early := ana.take(); len(early) != 0 {
			t.Errorf("the one that came 10 s later was answered before its time: %v", early)
		}
		time.Sleep(time.Second)
		late(t, ana.take(), 1)
		f.on.Store(false)
		ana.says("c-ab", "m0", "x")
	})
}

// Sends that came over some seconds do not share a deadline: the last of them would
// have no time left.
func TestSendsThatCameLaterKeepTheirOwnTime(t *testing.T) {
	inFrozen(t, func(c *Config) { c.Heartbeat = time.Hour }, func(w *world, f *frozen) {
		ana := w.connect("u-ana", "d-phone")
		f.on.Store(true)
		ana.syncs("first")
		for i := range 10 {
			time.Sleep(time.Second)
			ana.send(`{"t":"send","rid":"m%d","conv":"c-ab","cmid":"m%d","body":"x"}`, i, i)
		}
		time.Sleep(5*time.Second + time.Millisecond)
		late(t, ana.take(), 1)
		f.on.Store(false)
		time.Sleep(2 * time.Second)
		answers := map[string]int{}
		for _, f := range ana.take() {
			answers[f.t()]++
		}
		if answers["error"] != 2 || answers["sent"] != 8 { // two had been handed on while all was frozen
			t.Errorf("answered %v, want 2 errors and 8 sent", answers)
		}
	})
}

func TestAPingOvertakesWhatWaits(t *testing.T) {
	inFrozen(t, nil, func(w *world, f *frozen) {
		ana := w.connect("u-ana", "d-phone")
		f.on.Store(true)
		ana.syncs("waits")
		ana.syncs("waits too")
		ana.send(`{"t":"ping","rid":"p"}`)
		if pong := ana.wants("pong"); pong["rid"] != "p" {
			t.Errorf("pong = %v", pong)
		}
		ana.send(`{"t":"send","rid":"ping","conv":"c-ab","cmid":"ping","body":"ping"}`)
		ana.wants() // it only speaks of pings
	})
}

// A client that reads slowly uses up its own time, and not that of its requests.
func TestTimeThatAClientDoesNotReadIsNotTakenFromItsRequests(t *testing.T) {
	inWorld(t, func(c *Config) { c.Heartbeat, c.Sweep, c.Ladder = time.Hour, time.Hour, noRetry }, func(w *world) {
		ana := w.connect("u-ana", "d-phone")
		for i := range 12 {
			ana.says("c-ab", fmt.Sprint("m", i), strings.Repeat("x", 60_000))
		}
		<-ana.gate
		for i := range 8 {
			ana.syncs(fmt.Sprint("s", i))
		}
		time.Sleep(40 * time.Second)
		ana.gate <- struct{}{}
		answers := ana.take()
		for _, f := range answers {
			if f.t() != "synced" {
				t.Errorf("answered %v", f)
			}
		}
		if len(answers) != 8 {
			t.Errorf("%d of 8 syncs were answered", len(answers))
		}
	})
}

// Pings that overtake cost no more memory than others: a client that reads no answer
// is not read any more (D15).
func TestPingsWhoseAnswersNobodyReadsStopTheReading(t *testing.T) {
	inWorld(t, func(c *Config) { c.MaxRate, c.MaxInflight, c.Heartbeat = -1, 8, time.Hour }, func(w *world) {
		ana := w.connect("u-ana", "d-phone")
		<-ana.gate
		var written atomic.Int64
		ping := fmt.Sprintf(`{"t":"ping","rid":"%064d"}`, 1)
		go func() {
			for range 40_000 {
				ana.send("%s", ping)
				written.Add(1)
			}
		}()
		synctest.Wait()
		if n := written.Load(); n > 20_000 {
			t.Errorf("%d pings were read while no answer was", n)
		}
		ana.gate <- struct{}{}
		if pongs := ana.only("pong"); len(pongs) != 40_000 {
			t.Errorf("%d of 40000 pings were answered", len(pongs))
		}
	})
}
