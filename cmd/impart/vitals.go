package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/impart-im/impart/internal/store"
)

// How often the database's clock and standbys are looked at, how far this machine's
// clock may be from the database's before that is told, and how long a question may
// take whose answer still says something of the clock.
const (
	vitalsEvery    = 2 * time.Second
	maxClockOffset = time.Second
	maxClockTook   = time.Second
)

// registerVitals shows what is found.
func (p *parts) registerVitals(registry prometheus.Registerer) {
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "im_store_clock_offset_seconds", Help: "How far this machine's clock is ahead of the store's.",
		}, func() float64 { return float64(p.offset.Load()) / 1000 }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "im_store_waiting_for_standby", Help: "Sessions of all nodes whose commit has waited for a synchronous standby for more than a second.",
		}, func() float64 {
			if s := p.standby.Load(); s != nil {
				return float64(s.Waiting)
			}
			return 0
		}),
	)
}

// feelPulse looks at the vitals of the store until ctx ends.
func (p *parts) feelPulse(ctx context.Context, log *slog.Logger) {
	every := time.NewTicker(vitalsEvery)
	defer every.Stop()
	for {
		p.lookAtVitals(ctx, log)
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

// lookAtVitals is one look. Of a store that does not answer nothing is known of its
// standbys, and its clock is taken to be where it was.
func (p *parts) lookAtVitals(ctx context.Context, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, watchWithin)
	defer cancel()
	v, err := p.store.Vitals(ctx)
	if err != nil {
		p.standby.Store(nil)
		return
	}
	switch was := p.standby.Swap(&v.Standby); {
	case stuck(&v.Standby) && !stuck(was):
		log.Error("nothing can be stored: "+waitsFor(&v.Standby), "waiting", v.Waiting, "longest", v.Longest.Round(time.Millisecond), "advice", endTheWait(&v.Standby))
	case !stuck(&v.Standby) && stuck(was):
		log.Info("commits wait for no standby that is missing any more")
	}
	offset, told := clockOffset(&v)
	if !told {
		return
	}
	was := time.Duration(p.offset.Swap(offset.Milliseconds())) * time.Millisecond
	if offset.Abs() > maxClockOffset && was.Abs() <= maxClockOffset {
		log.Warn("this machine's clock differs from the store's: run a time service on both", "ahead", offset)
	}
}

// clockOffset is how far this machine's clock is ahead of the store's, to within the
// time that asking took. An answer that took long tells nothing.
func clockOffset(v *store.Vitals) (offset time.Duration, told bool) {
	if v.Now == 0 || v.Took > maxClockTook {
		return 0, false
	}
	offset = v.Asked.Sub(time.UnixMilli(int64(v.Now)))
	if offset.Abs() <= v.Took/2+time.Millisecond {
		return 0, true // within what can be told
	}
	return offset, true
}

// stuck reports whether commits wait for a standby that does not answer.
func stuck(s *store.Standby) bool { return s != nil && s.Waiting > 0 }

// errStandby says that nothing is wrong with what failed but that it waits behind
// commits that wait for a standby.
var errStandby = errors.New("commits at the database wait for a synchronous standby that does not answer")

// orStandby is err, or errStandby if that is why.
func (p *parts) orStandby(ctx context.Context, err error) error {
	if p.store == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, watchWithin)
	defer cancel()
	if v, e := p.store.Vitals(ctx); e == nil && stuck(&v.Standby) {
		return fmt.Errorf("%w: %s", errStandby, endTheWait(&v.Standby))
	}
	return err
}

// waitsFor says what commits wait for.
func waitsFor(s *store.Standby) string {
	if s.Connected == 0 {
		return "commits wait for a synchronous standby, and none is connected"
	}
	return "commits wait for a synchronous standby that does not answer"
}

// endTheWait says what to do about it.
func endTheWait(s *store.Standby) string {
	if s.Names == semiSynchronous {
		return "start a replica; or SET GLOBAL rpl_semi_sync_master_enabled = OFF (rpl_semi_sync_source_enabled on MySQL), and a failover may then lose what is sent until it is ON again"
	}
	return fmt.Sprintf("start a standby that synchronous_standby_names (%s) names; or ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf(); and a failover may then lose what is sent until it is set again", s.Names)
}

// semiSynchronous is what the store calls MySQL's replication.
const semiSynchronous = "semi-synchronous"

// standbyFindings judge whether commits come back: without the standby that they wait
// for nothing is lost, and nothing is stored.
func standbyFindings(s *store.Standby) []finding {
	if s.Names == "" {
		return nil
	}
	f := finding{Check: "standbys", Verdict: good, Found: fmt.Sprintf("%d connected, and a commit comes back", s.Connected)}
	switch {
	case stuck(s):
		f.Verdict, f.Found, f.Advice = fail, fmt.Sprintf("%s: one has waited for %.0f s", waitsFor(s), s.Longest.Seconds()), endTheWait(s)
	case s.Connected == 0:
		f.Verdict, f.Found, f.Advice = fail, waitsFor(s), endTheWait(s)
	case s.Connected == 1:
		f.Verdict, f.Found = warn, "one is connected, and a commit waits for it"
		f.Advice = "without it nothing can be stored: have two, and ANY 1 (a,b) in synchronous_standby_names"
	}
	return []finding{f}
}
