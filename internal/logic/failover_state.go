package logic

import (
	"context"
	"log/slog"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// History implements [impart.Admin].
func (s *Service) History(ctx context.Context) (impart.HistoryInfo, error) {
	if s.store.Halted() == nil {
		_, _ = s.Epoch(ctx) // what it finds is kept; otherwise the one that was known last is told
	}
	f := s.failover
	f.mu.Lock()
	defer f.mu.Unlock()
	info := f.state
	info.Waiting = append([]string(nil), info.Waiting...)
	info.Epoch = impart.Epoch(s.epoch.value.Load())
	if halt := s.store.Halted(); halt != nil && info.State == impart.HistoryAccepted {
		info.State, info.Met, info.Incarnation = impart.HistoryHalted, halt.Now.Incarnation, halt.Was.Incarnation
	}
	return info, nil
}

// noteHalt tells of a halt once.
func (f *failover) noteHalt(ctx context.Context, halt *store.Halt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.state.State == impart.HistoryAccepted || f.state.Met != halt.Now.Incarnation
	if f.state.State == impart.HistoryAccepted {
		f.state.Since = f.s.now()
	}
	if first {
		f.state.State, f.state.Waiting = impart.HistoryHalted, nil
	}
	f.state.Met, f.state.Incarnation = halt.Now.Incarnation, halt.Was.Incarnation
	f.s.metrics.halted.Set(1)
	if first {
		f.s.log.LogAttrs(ctx, slog.LevelError, "the database has another history: nothing is written or read until it has been judged",
			slog.String("was", halt.Was.Incarnation), slog.String("now", halt.Now.Incarnation), slog.Bool("judged", halt.Judged), slog.Bool("behind", halt.Behind))
	}
}

// noteWaiting tells whose verdict is missing, when that changes.
func (f *failover) noteWaiting(ctx context.Context, found finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.State != impart.HistoryJudging {
		f.s.log.LogAttrs(ctx, slog.LevelWarn, "the database's history is being judged", slog.Any("waiting", found.waiting))
	}
	f.state.State, f.state.Waiting = impart.HistoryJudging, found.waiting
}

// noteJudged tells what was decided.
func (f *failover) noteJudged(ctx context.Context, j store.Judgement, found finding, raised bool, v store.Verdict) {
	f.mu.Lock()
	defer f.mu.Unlock()
	epoch, level := "kept", slog.LevelWarn
	if raised {
		epoch, level = "raised", slog.LevelError
	}
	why := found.why
	switch {
	case j.Late && j.Raised:
		why = "decided without this node, which misses acknowledged commits"
	case !j.Decided:
		why = "another node has decided: " + reasonOf(j.Counted, raised)
	}
	f.s.metrics.failovers.WithLabelValues(epoch).Inc()
	f.s.metrics.halted.Set(0)
	halted := f.s.now() - f.state.Since
	f.s.log.LogAttrs(ctx, level, "the database's history has been judged", slog.String("epoch", epoch), slog.Int64("now", int64(j.Meta.Epoch)),
		slog.String("why", why), slog.String("incarnation", j.Meta.Incarnation), slog.Bool("late", j.Late), slog.Int("checked", v.Checked),
		slog.Int("missing", v.Missing), slog.Int("lost", v.Lost), slog.Int64("halted_ms", int64(halted)))
	f.state = impart.HistoryInfo{
		State: impart.HistoryAccepted, Epoch: j.Meta.Epoch, Incarnation: j.Meta.Incarnation, Lost: f.state.Lost + int64(v.Lost),
		Last: &impart.JudgementInfo{At: f.s.now(), Raised: raised, Epoch: j.Meta.Epoch, Why: why, Late: j.Late, Missing: int64(v.Missing), Lost: int64(v.Lost), Halted: halted},
	}
}

// resumed is after a halt that ended because the accepted history is there again.
func (f *failover) resumed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.State == impart.HistoryAccepted {
		return
	}
	f.state.State, f.state.Met, f.state.Waiting, f.state.Since = impart.HistoryAccepted, "", nil, 0
	f.s.metrics.halted.Set(0)
	f.s.log.Warn("the accepted history of the database is back")
}

// failed tells that a round did not come to its end; the next one comes soon.
func (f *failover) failed(ctx context.Context, what string, err error) {
	f.s.failures.Do(func() {
		f.s.log.LogAttrs(ctx, slog.LevelWarn, "the database's history cannot be judged yet", slog.String("while", what), slog.Any("err", err))
	})
}
