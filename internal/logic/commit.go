package logic

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/store"
)

// commit stores items and, once they have committed, wakes whoever may see what
// is new. The results are in the order of the items, and every error in them is
// an [impart.Error].
func (s *Service) commit(ctx context.Context, op string, items []store.Append) []store.Appended {
	if len(items) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		results := make([]store.Appended, len(items))
		for i := range results {
			results[i].Err = s.answer(ctx, op, err)
		}
		return results
	}
	start := s.cfg.Now()
	work, done := detach(ctx)
	defer done()
	turn := s.ledger.begin()
	results := s.store.Append(work, items)
	s.promiseStored(turn, items, results)
	afterCommit(op, results)
	s.metrics.sendSeconds.Observe(s.cfg.Now().Sub(start).Seconds())
	s.metrics.sendItems.Observe(float64(len(items)))
	s.publish(ctx, wakes(items, results)...)
	s.settle(ctx, op, items, results)
	return results
}

// detach is ctx without its cancellation, but with its deadline.
//
// A commit under way cannot be called back, and what it changes concerns others
// more than the caller: so a caller who goes away while it runs is no reason to
// leave before the others have been told. A deadline is; the sweep finds what
// commits after it.
func detach(ctx context.Context) (context.Context, context.CancelFunc) {
	work := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(work, deadline)
	}
	return work, func() {}
}

// wakes is one wake-up for each conversation that has new events.
func wakes(items []store.Append, results []store.Appended) []bus.Message {
	var messages []bus.Message
	var at map[impart.ConvID]int // messages by conversation, once there are several items
	if len(items) > 1 {
		at = make(map[impart.ConvID]int, len(items))
	}
	for i := range items {
		result := &results[i]
		if result.Err != nil || result.Dup {
			continue
		}
		conv := items[i].Conv
		if k, ok := at[conv]; ok {
			messages[k].From = min(messages[k].From, result.Seq)
			messages[k].Head = max(messages[k].Head, result.Seq)
			continue
		}
		if at != nil {
			at[conv] = len(messages)
		}
		messages = append(messages, bus.Message{Kind: bus.Wake, Conv: conv, From: result.Seq, Head: result.Seq})
	}
	return messages
}

// settle counts the results and turns what went wrong into the errors that
// senders get. The items of one failed commit are logged as one failure.
func (s *Service) settle(ctx context.Context, op string, items []store.Append, results []store.Appended) {
	var logged error
	for i := range results {
		result := &results[i]
		switch {
		case result.Err != nil:
			e := impart.AsError(result.Err)
			s.metrics.refused.WithLabelValues(op, string(e.Code)).Inc()
			if e.Code == impart.EpochChanged {
				s.epoch.saw(e.Epoch)
			}
			if e.Code == impart.Unavailable && logged == nil {
				logged = result.Err
			}
			result.Err = s.patient(e)
		case result.Dup:
			s.metrics.hit(layerStore)
		case items[i].Kind == impart.KindRecall:
			s.metrics.recalled.Inc()
		default:
			s.metrics.stored.Inc()
		}
		s.epoch.saw(result.Epoch)
	}
	if logged != nil {
		s.unfinished(ctx, op, logged)
	}
}
