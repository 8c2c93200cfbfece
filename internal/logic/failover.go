package logic

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/store"
)

const (
	// judgeEvery is how often a halted node looks again.
	judgeEvery = 200 * time.Millisecond
	// beatWithin, roundWithin and leaveWithin bound a beat, a round of judging, and the
	// farewell.
	beatWithin  = 3 * time.Second
	roundWithin = 15 * time.Second
	leaveWithin = time.Second
	// lostLines is how many lost promises are logged one by one.
	lostLines = 100
)

// failover keeps this node's beat, and judges a change of the store's history
// together with the other nodes (D18). Nothing is written meanwhile: the store sees
// to that by itself.
type failover struct {
	s       *Service
	node    store.Node
	vouched bool
	kicked  chan struct{} // a request found the store unavailable: look at once

	mu    sync.Mutex // guards what follows
	state impart.HistoryInfo

	// The rest is the judging goroutine's.
	beats      int64  // the number of the last beat
	namesake   bool   // it was told that another node has this one's name
	replicated bool   // the last beat's commit waited for a standby
	checked    *check // what was found in the history that is judged
}

// check is the look at a history.
type check struct {
	change, server string
	verdict        store.Verdict
	missing        []store.Promise
	told           bool
}

func newFailover(s *Service) *failover {
	return &failover{
		s: s, node: store.Node{ID: uuid.Must(uuid.NewV7()).String(), Name: s.cfg.Node}, vouched: s.cfg.Vouched,
		kicked: make(chan struct{}, 1),
	}
}

// kick lets the judging goroutine look at the store at once.
func (f *failover) kick() {
	select {
	case f.kicked <- struct{}{}:
	default:
	}
}

// run beats and judges until ctx ends. A store that nobody else can reach needs
// neither.
func (f *failover) run(ctx context.Context) {
	due := f.s.cfg.Now()
	for {
		now := f.s.cfg.Now()
		halted := f.s.store.Halted() != nil
		switch {
		case halted:
			f.round(ctx)
			due = f.s.cfg.Now()
		case !now.Before(due):
			if f.beat(ctx) {
				f.s.ledger.close()
				return
			}
			due = now.Add(beatEvery)
		}
		wait := min(due.Sub(f.s.cfg.Now()), beatEvery)
		if f.s.store.Halted() != nil {
			wait = judgeEvery
		}
		if !f.pause(ctx, wait) {
			f.leave(ctx)
			return
		}
	}
}

// pause waits, or until somebody finds the store unavailable.
func (f *failover) pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(max(wait, time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-f.kicked:
	case <-timer.C:
	}
	return true
}

// beat says that the node is alive; alone says that the store is this node's alone.
// After a beat that fails the database is looked at on a new connection: those that
// are there may lead to a server that answers no more.
func (f *failover) beat(ctx context.Context) (alone bool) {
	short, cancel := context.WithTimeout(ctx, beatWithin)
	defer cancel()
	beat, err := f.s.store.Beat(short, f.node)
	switch {
	case err == nil && beat.Alone:
		return true
	case err != nil:
		if ctx.Err() == nil && f.s.store.Halted() == nil {
			look, cancel := context.WithTimeout(ctx, roundWithin)
			defer cancel()
			_, _ = f.s.store.Look(look) // what it finds is in Halted
		}
		return false
	}
	f.beats, f.replicated = beat.Number, beat.Replicated
	f.tellNamesake(ctx, beat)
	f.s.ledger.forget(f.s.age()-millisOf(promiseAge), nil)
	return false
}

// tellNamesake warns once of another node of the same name. By its fourth beat a node
// has outlived the last one of a predecessor that was killed.
func (f *failover) tellNamesake(ctx context.Context, beat store.Beat) {
	if beat.Number < 4 || beat.Namesakes == 0 || f.namesake {
		return
	}
	f.namesake = true
	f.s.log.LogAttrs(ctx, slog.LevelWarn, "another node has the same name: logs and verdicts do not tell them apart; give each its own IM_GATEWAY_ID",
		slog.String("name", f.node.Name), slog.Int("others", beat.Namesakes))
}

// leave says goodbye, so that nobody waits for this node's verdict.
func (f *failover) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	if f.s.store.Halted() == nil {
		_ = f.s.store.Leave(ctx, f.node) // otherwise its lease runs out
	}
}

// round is one attempt to judge.
func (f *failover) round(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, roundWithin)
	defer cancel()
	halt, err := f.s.store.Look(ctx)
	switch {
	case err != nil:
		f.failed(ctx, "looking at the database", err)
		return
	case halt == nil:
		f.checked = nil
		f.resumed()
		return
	}
	f.noteHalt(ctx, halt)
	if err := f.check(ctx, halt); err != nil {
		f.failed(ctx, "looking up what was acknowledged", err)
		return
	}
	var found finding
	judgement, err := f.s.store.Judge(ctx, halt, f.checked.verdict, func(b store.Bench) store.Ruling {
		found = rule(b)
		return found.ruling
	})
	if err != nil {
		f.failed(ctx, "judging the database's history", err)
		return
	}
	f.tell(ctx)
	if judgement.Waiting {
		f.noteWaiting(ctx, found)
		return
	}
	f.goOn(ctx, halt, judgement, found)
}

// check looks up what this node has promised, once for each change; another node's
// decision is no other change.
func (f *failover) check(ctx context.Context, halt *store.Halt) error {
	if c := f.checked; c != nil && c.server == halt.Now.Incarnation && (c.change == halt.Change || halt.Judged) {
		c.verdict.Behind = c.verdict.Behind || halt.Behind
		return nil
	}
	promises := f.s.ledger.read(f.s.age() - millisOf(promiseAge))
	if f.beats > 0 {
		promises = append(promises, store.Promise{What: store.PromisedBeat, Node: f.node.ID, Number: f.beats})
	}
	missing, err := f.s.store.Missing(ctx, halt, promises)
	if err != nil {
		return err
	}
	lost := 0
	for i := range missing {
		if missing[i].What == store.PromisedMessage {
			lost++
		}
	}
	f.checked = &check{change: halt.Change, server: halt.Now.Incarnation, missing: missing, verdict: store.Verdict{
		Node: f.node, Checked: len(promises), Missing: len(missing), Lost: lost, Epoch: halt.Was.Epoch, Behind: halt.Behind,
		// Who has promised nothing, as after a start, has nothing to vouch for.
		Vouched: f.vouched && (f.replicated || len(promises) == 0),
	}}
	return nil
}

// tell logs and counts what is missing, once its verdict is written.
func (f *failover) tell(ctx context.Context) {
	c := f.checked
	if c.told {
		return
	}
	c.told = true
	if f.vouched && !c.verdict.Vouched {
		f.s.log.LogAttrs(ctx, slog.LevelError,
			"IM_REPLICATION=sync does not count: the database waited for no standby (synchronous_standby_names, synchronous_commit)")
	}
	for i := range c.missing {
		p := &c.missing[i]
		f.s.metrics.lost.WithLabelValues(string(p.What)).Inc()
		if i < lostLines {
			f.s.log.LogAttrs(ctx, slog.LevelError, "acknowledged and gone", slog.String("what", string(p.What)),
				slog.String("conv", string(p.Conv)), slog.Int64("seq", int64(p.Seq)), slog.String("mid", string(p.MID)),
				slog.String("user", string(p.User)), slog.String("cmid", string(p.CMID)), slog.Int64("epoch", int64(p.Epoch)))
		}
	}
	if more := len(c.missing) - lostLines; more > 0 {
		f.s.log.LogAttrs(ctx, slog.LevelError, "acknowledged and gone, without a line of their own", slog.Int("count", more))
	}
}

// goOn is after the judgement: what is known of the old history and could differ is
// forgotten, and everybody is told of a new epoch. Every node tells, so that nobody
// depends on the one that has decided.
func (f *failover) goOn(ctx context.Context, halt *store.Halt, j store.Judgement, found finding) {
	s := f.s
	raised := j.Meta.Epoch > halt.Was.Epoch
	s.ledger.forget(0, f.checked.missing)
	s.epoch.saw(j.Meta.Epoch)
	s.epoch.forget()
	if raised {
		s.audiences.clear()
		s.users.clear()
		s.publish(ctx, bus.Message{Kind: bus.EpochRaised, Epoch: j.Meta.Epoch})
	}
	verdict := f.checked.verdict
	f.checked = nil
	f.noteJudged(ctx, j, found, raised, verdict)
}
