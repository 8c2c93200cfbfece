package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart/wire"
)

// StormLoad is what [Env.Storm] does. The zero value of a field is its default.
type StormLoad struct {
	Clients  int           // that resend; 1,000
	Messages int           // stored messages that each resends at once; 10
	Live     int           // senders that go on meanwhile; 32
	Rate     float64       // sends a second of all of them, in open loop; 500
	Body     int           // bytes of a message; 150
	Duration time.Duration // of the calm, and of the storms; 10 s
	Every    time.Duration // between the beginnings of two storms; 2 s
}

func (l *StormLoad) setDefaults() {
	defaultTo(&l.Clients, 1000)
	defaultTo(&l.Messages, 10)
	defaultTo(&l.Live, 32)
	defaultTo(&l.Rate, 500)
	defaultTo(&l.Body, 150)
	defaultTo(&l.Duration, 10*time.Second)
	defaultTo(&l.Every, 2*time.Second)
}

// stormConvs are the conversations of a storm.
const stormConvs = 50

// Storm measures what a retry storm does to others: many clients resend messages
// that are stored already, as after an outage in which the answers were lost,
// while live senders go on.
func (e *Env) Storm(ctx context.Context, l StormLoad) error {
	l.setDefaults()
	if err := e.room(l.Clients + l.Live); err != nil {
		return err
	}
	t, err := e.Start(ctx, false)
	if err != nil {
		return err
	}
	c, err := e.newCrowd(ctx, t, l.Clients+l.Live, stormConvs, l.Body)
	if err != nil {
		return err
	}
	defer c.close()
	s := &storm{Env: e, load: l, target: t, crowd: c, clients: c.senders[:l.Clients], live: c.senders[l.Clients:]}
	for _, step := range []func(context.Context) error{s.store, s.calm, s.alone, s.rage} {
		if err = step(ctx); err != nil || ctx.Err() != nil {
			break
		}
	}
	if err == nil {
		s.summarize()
	}
	return errors.Join(err, e.verify(ctx, t, c.ledger, anybody))
}

// storm is one run of [Env.Storm].
type storm struct {
	*Env
	load          StormLoad
	target        *Target
	crowd         *crowd
	clients, live []*sender

	calmly, raging *Run
	first, again   float64 // bytes that the server wrote for a message, and for a resend
	resent, dups   atomic.Int64
	raged          atomic.Bool  // a storm is on
	over           atomic.Int64 // when the last one was over, in Unix nanoseconds
	longest        time.Duration
	storms         int
	counted        bool    // whether the server's counters were read, for what follows
	items, commits float64 // a resend, of the storm that had the server for itself
}

// store lets the clients send what they will resend.
func (s *storm) store(ctx context.Context) error {
	wrote := s.written()
	m := newMeter()
	_, err := s.window(ctx, window{name: "storing what will be resent", unit: "sends"}, m, func(ctx context.Context) error {
		var group sync.WaitGroup
		errs := make(chan error, len(s.clients))
		for _, c := range s.clients {
			group.Go(func() {
				for range s.load.Messages {
					if answered, err := s.crowd.one(ctx, c); err != nil || !answered {
						errs <- err
						return
					}
					m.done.Add(1)
				}
			})
		}
		group.Wait()
		select {
		case err := <-errs:
			return err
		default:
			return nil
		}
	})
	s.first = float64(s.written()-wrote) / float64(max(m.done.Load(), 1))
	return err
}

// calm measures the live senders without a storm.
func (s *storm) calm(ctx context.Context) error {
	before := s.counters(ctx, s.target)
	m, late := newMeter(), newRecorder()
	run, err := s.window(ctx, window{name: "live senders, calm", unit: "sends", of: s.load.Duration, grace: lateAnswer}, m, func(ctx context.Context) error {
		return s.crowd.open(ctx, s.live, s.load.Rate, s.load.Duration, late, func(due time.Time) { m.finish(time.Since(due)) })
	})
	run.Loop, run.Of = Open, "a send, from when it was due to its answer"
	run.meanwhile(late, nil)
	s.counters(ctx, s.target).since(before).others(&run, run.Seconds)
	s.calmly = &run
	s.Report.Runs = append(s.Report.Runs, run)
	return err
}

// alone is one storm without anybody else, so that what the server counts and
// writes meanwhile is the storm's.
func (s *storm) alone(ctx context.Context) error {
	before, wrote := s.counters(ctx, s.target), s.written()
	took, n, err := s.resend(ctx)
	if err != nil || n == 0 {
		return err
	}
	c := s.counters(ctx, s.target).since(before)
	run := Run{Name: "a storm alone", Seconds: took.Seconds()}
	run.add("resends", float64(n), "")
	run.add("answered a second", float64(n)/took.Seconds(), "/s")
	s.again = float64(s.written()-wrote) / float64(n)
	if c != nil {
		s.counted = true
		s.items, s.commits = c["im_store_items_total"]/float64(n), c["im_store_commits_total"]/float64(n)
		run.add("items of transactions a resend", s.items, "")
		run.add("transactions a resend", s.commits, "")
		run.add("CPU of the server a resend", 1e6*c["process_cpu_seconds_total"]/float64(n), "µs")
		run.add("CPU of the bench a resend", 1e6*c[ownCPU]/float64(n), "µs")
	}
	if s.first > 0 {
		run.add("bytes written for a message", s.first, "")
		run.add("bytes written for a resend", s.again, "")
	}
	s.Report.Runs = append(s.Report.Runs, run)
	return nil
}

// rage lets storms come over the live senders. Of their sends only those count
// that met a storm.
func (s *storm) rage(ctx context.Context) error {
	before := s.counters(ctx, s.target)
	m, late := newMeter(), newRecorder()
	run, err := s.window(ctx, window{name: "live senders, in storms", unit: "sends", of: s.load.Duration, grace: lateAnswer}, m, func(ctx context.Context) error {
		ended := make(chan error, 1)
		go func() { ended <- s.blow(ctx) }()
		err := s.crowd.open(ctx, s.live, s.load.Rate, s.load.Duration, late, func(due time.Time) {
			if s.raged.Load() || due.UnixNano() < s.over.Load() {
				m.finish(time.Since(due))
			}
		})
		if stormed := <-ended; err == nil {
			err = stormed
		}
		return err
	})
	run.Loop, run.Of = Open, "a live send that met a storm, from when it was due to its answer"
	run.Figures = nil
	run.add("storms", float64(s.storms), "")
	run.add("resends a storm", float64(len(s.clients)*s.load.Messages), "")
	run.add("longest storm", s.longest.Seconds()*1000, "ms")
	run.add("live sends that met one", float64(m.done.Load()), "")
	run.meanwhile(late, nil)
	s.crowd.refused.describe(&run)
	s.counters(ctx, s.target).since(before).others(&run, run.Seconds)
	s.raging = &run
	s.Report.Runs = append(s.Report.Runs, run)
	return err
}

// blow makes one storm after the other.
func (s *storm) blow(ctx context.Context) error {
	start := time.Now()
	plan := schedules(start.Add(s.load.Every/2), 1/s.load.Every.Seconds(), 1)[0]
	return plan.keep(ctx, start.Add(s.load.Duration-s.load.Every/2), func(time.Time) error {
		s.raged.Store(true)
		took, _, err := s.resend(ctx)
		s.over.Store(time.Now().UnixNano())
		s.raged.Store(false)
		s.storms++
		s.longest = max(s.longest, took)
		return err
	})
}

// resend lets every client resend all its messages at once, and waits for the
// answers. A storm that has begun is not cut short.
func (s *storm) resend(ctx context.Context) (took time.Duration, n int64, err error) {
	ctx = context.WithoutCancel(ctx)
	start := time.Now()
	var group sync.WaitGroup
	errs := make(chan error, len(s.clients))
	before := s.resent.Load()
	for _, c := range s.clients {
		group.Go(func() {
			if err := s.repeat(ctx, c); err != nil {
				errs <- fmt.Errorf("client %d: %w", c.index, err)
			}
		})
	}
	group.Wait()
	select {
	case err = <-errs:
	default:
	}
	return time.Since(start), s.resent.Load() - before, err
}

// repeat resends the messages of one client with one write.
func (s *storm) repeat(ctx context.Context, c *sender) error {
	frames := make([]wire.Frame, s.load.Messages)
	for n := range frames {
		frames[n] = s.crowd.frame(c, int64(n))
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(lateAnswer))
	defer c.nc.SetReadDeadline(time.Time{})
	if err := c.write(frames...); err != nil {
		return err
	}
	for left := len(frames); left > 0; {
		got, err := c.answer()
		if err != nil {
			return err
		}
		switch f := got.(type) {
		case *wire.Sent:
			n, err := strconv.ParseInt(f.RID, 10, 64)
			if err != nil {
				return fmt.Errorf("an answer to %q, which was not asked", f.RID)
			}
			if f.Sent.Dup {
				s.dups.Add(1)
			}
			s.resent.Add(1)
			left--
			if err := s.crowd.answered(c, n, &f.Sent); err != nil {
				return err
			}
		case *wire.ErrorFrame:
			if err := s.crowd.refused.take(f); err != nil {
				return err
			}
			n, err := strconv.ParseInt(f.RID, 10, 64)
			if err != nil {
				return f.Err
			}
			pause(ctx, f.Err.RetryAfter)
			if err := c.write(s.crowd.frame(c, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// written is how many bytes the server has given to the disk so far; 0: not known.
func (s *storm) written() int64 {
	if s.target.Process == nil {
		return 0
	}
	return bytesWritten(s.target.Process.PID())
}

// enoughStorms is how many it takes for one in the middle, with one on either side.
const enoughStorms = 3

// fewStorms warns that what n storms did may be chance.
func fewStorms(n int, every time.Duration) string {
	what := fmt.Sprintf("only %d storms", n)
	if n == 1 {
		what = "only 1 storm"
	}
	return fmt.Sprintf("%s: what they did to the live senders may be chance. It takes at least %d for a median: a --duration of more than %v, or a shorter --every", what, enoughStorms, enoughStorms*every)
}

func (s *storm) summarize() {
	r := s.Report
	if s.raging != nil && s.storms < enoughStorms {
		r.note(fewStorms(s.storms, s.load.Every))
	}
	if s.calmly != nil && s.calmly.Latency != nil && s.raging != nil && s.raging.Latency != nil {
		r.ratio(Ratio{Name: "× calm, p99 of live senders", Value: s.raging.Latency.P99 / s.calmly.Latency.P99, Reach: 3, AtMost: true, Why: "in storms against calm, same rate"}, *s.calmly, *s.raging)
	}
	if s.first > 0 {
		r.ratio(Ratio{Name: "bytes written for a resend, × a message", Value: s.again / s.first, Reach: 1, AtMost: true, Why: "one storm alone against the first sends"})
	}
	resent, dups := s.resent.Load(), s.dups.Load()
	r.add(Check{"every resend was answered as the duplicate it is", resent > 0 && resent == dups, fmt.Sprintf("%d resends, %d answered with dup", resent, dups)})
	if s.counted {
		r.add(Check{"a resend is written once at most", s.items < 1.05, fmt.Sprintf("%.2f items of transactions a resend, %.3f transactions", s.items, s.commits)})
	}
}
