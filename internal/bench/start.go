package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// StartLoad is what [Env.Restart] does. The zero value of a field is its default.
type StartLoad struct {
	Events int // stored before; 1,000,000
	Rounds int // starts of each kind; 5. Medians count
	Body   int // bytes of a message; 150
}

// Of the load under which a server is killed.
const (
	startSenders = 256
	startConvs   = 200
	killAfter    = 2 * time.Second
)

// Restart measures how long a server takes from the start of its process until
// it is ready: on a store with many events, after kill -9 under load, and in
// turns on an empty store after kill -9.
func (e *Env) Restart(ctx context.Context, l StartLoad) error {
	defaultTo(&l.Events, 1_000_000)
	defaultTo(&l.Rounds, 5)
	defaultTo(&l.Body, 150)
	if e.Again == nil {
		return errors.New("starting can only be measured on a server of its own: leave out --url")
	}
	s := &starts{Env: e, full: newRecorder(), empty: newRecorder()}
	if err := s.fill(ctx, l); err != nil {
		return err
	}
	defer func() { s.crowd.close() }()
	for round := range l.Rounds {
		if ctx.Err() != nil {
			break
		}
		if err := s.round(ctx, round+1); err != nil {
			return err
		}
	}
	s.summarize()
	// What was answered before a kill must be there after it.
	return e.verify(ctx, s.loaded, s.crowd.ledger, anybody)
}

// starts is one run of [Env.Restart].
type starts struct {
	*Env
	loaded, bare *Target
	crowd        *crowd
	full, empty  *recorder
	fulls        []float64 // ms
	empties      []float64
}

// fill stores the events, and makes the empty store.
func (s *starts) fill(ctx context.Context, l StartLoad) (err error) {
	if s.loaded, err = s.Start(ctx, false); err != nil {
		return err
	}
	if s.bare, err = s.Start(ctx, false); err != nil {
		return err
	}
	if s.crowd, err = s.newCrowd(ctx, s.loaded, startSenders, startConvs, l.Body); err != nil {
		return err
	}
	m := newMeter()
	var left atomic.Int64
	left.Store(int64(l.Events))
	_, err = s.window(ctx, window{name: fmt.Sprintf("storing %d events", l.Events), unit: "sends"}, m, func(ctx context.Context) error {
		return s.crowd.while(ctx, s.crowd.senders, m, func() bool { return left.Add(-1) >= 0 })
	})
	return err
}

// round kills and starts each server once.
func (s *starts) round(ctx context.Context, n int) error {
	if err := s.killUnderLoad(ctx, n); err != nil {
		return err
	}
	var err error
	if s.loaded, err = s.Again(ctx, s.loaded.Process); err != nil {
		return err
	}
	s.full.record(s.loaded.Process.Took)
	s.fulls = append(s.fulls, s.loaded.Process.Took.Seconds()*1000)
	if err := s.crowd.connect(ctx, s.loaded); err != nil {
		return err
	}
	s.bare.Process.Kill()
	if s.bare, err = s.Again(ctx, s.bare.Process); err != nil {
		return err
	}
	s.empty.record(s.bare.Process.Took)
	s.empties = append(s.empties, s.bare.Process.Took.Seconds()*1000)
	return nil
}

// killUnderLoad lets all senders send, and kills the server in the middle of it.
// What they are told then is no fault.
func (s *starts) killUnderLoad(ctx context.Context, n int) error {
	m := newMeter()
	_, err := s.window(ctx, window{name: fmt.Sprintf("load before kill -9, round %d", n), unit: "sends"}, m, func(ctx context.Context) error {
		ended := make(chan error, 1)
		go func() { ended <- s.crowd.closed(ctx, m) }()
		sleep(ctx, killAfter)
		s.loaded.Process.Kill()
		if err := <-ended; err == nil && ctx.Err() == nil {
			return errors.New("the server was killed and nobody noticed")
		}
		return nil
	})
	s.crowd.close()
	return err
}

func (s *starts) summarize() {
	add := func(name string, r *recorder, millis []float64) {
		run := Run{Name: name, Of: "a start, from the process to its ready line", Latency: r.latency()}
		run.add("median", median(millis), "ms")
		s.Report.Runs = append(s.Report.Runs, run)
	}
	add(fmt.Sprintf("start with %d stored events, after kill -9 under load", s.crowd.ledger.count()), s.full, s.fulls)
	add("start on an empty store, after kill -9", s.empty, s.empties)
	s.Report.ratio(Ratio{Name: "× the start on an empty store", Value: median(s.fulls) / median(s.empties), Reach: 2, AtMost: true, Why: "medians, in turns"})
	s.Report.add(Check{"every start succeeded", len(s.fulls) > 0 && len(s.fulls) == len(s.empties), fmt.Sprintf("%d starts after kill -9 under load", len(s.fulls))})
}
