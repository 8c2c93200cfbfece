package logic

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/store"
)

// Ack implements [impart.Cursors].
func (s *Service) Ack(ctx context.Context, ack impart.Ack) []impart.Acked {
	acked := make([]impart.Acked, len(ack.Items))
	for i := range ack.Items {
		acked[i].Conv = ack.Items[i].Conv
	}
	if err := s.checkAck(ctx, &ack); err != nil {
		err = s.answer(ctx, "ack", err)
		for i := range acked {
			acked[i].Err = err
		}
		return acked
	}
	epoch := s.epochBefore(ctx, ack.Epoch)
	moves, places := s.advances(ctx, &ack, acked)
	if len(moves) == 0 {
		return acked
	}
	turn := s.ledger.begin()
	results := s.store.Advance(ctx, moves)
	s.promiseMoved(turn, epoch, moves, results)
	s.publish(ctx, s.deliveries(ctx, &ack, epoch, moves, results)...)
	s.settleAcks(ctx, acked, places, results)
	return acked
}

func (s *Service) checkAck(ctx context.Context, ack *impart.Ack) error {
	if len(ack.Items) > impart.MaxLimit {
		return impart.Errorf(impart.TooLarge, "%d acks in one request, at most %d are allowed", len(ack.Items), impart.MaxLimit)
	}
	return first(checkCount("n", ack.N), checkSession(ack.Session), ctx.Err())
}

// advances are the moves to ask of the store, each once however often the
// request has it; places[i] is the move of item i, or -1 if the item is refused.
func (s *Service) advances(ctx context.Context, ack *impart.Ack, acked []impart.Acked) (moves []store.Advance, places []int) {
	moves = make([]store.Advance, 0, len(ack.Items))
	places = make([]int, len(ack.Items))
	known := make(map[impart.AckItem]int, len(ack.Items))
	for i, item := range ack.Items {
		if err := checkID("conv", item.Conv); err != nil {
			acked[i].Err, places[i] = s.answer(ctx, "ack", err), -1
			continue
		}
		place, ok := known[item]
		if !ok {
			place = len(moves)
			known[item] = place
			moves = append(moves, store.Advance{
				User: ack.Session.User, Device: ack.Session.Device, Install: ack.Session.Install, Session: ack.Session.Number,
				N: ack.N, Epoch: ack.Epoch, Conv: item.Conv, Seq: item.Seq,
			})
		}
		places[i] = place
	}
	return moves, places
}

// settleAcks fills in what the store has answered. Of several acks of one
// conversation each gets the highest cursor.
func (s *Service) settleAcks(ctx context.Context, acked []impart.Acked, places []int, results []store.Advanced) {
	furthest := make(map[impart.ConvID]impart.Seq, len(acked))
	var unfinished error
	for i, place := range places {
		if place < 0 {
			continue
		}
		result := &results[place]
		if result.Err == nil {
			furthest[acked[i].Conv] = max(furthest[acked[i].Conv], result.Delivered)
			continue
		}
		e := impart.AsError(result.Err)
		s.metrics.refused.WithLabelValues("ack", string(e.Code)).Inc()
		if e.Code == impart.EpochChanged {
			s.epoch.saw(e.Epoch)
		}
		if e.Code == impart.Unavailable {
			unfinished = result.Err
		}
		acked[i].Err = s.patient(e)
	}
	for i := range acked {
		if acked[i].Err == nil {
			acked[i].Delivered = furthest[acked[i].Conv]
		}
	}
	if unfinished != nil {
		s.unfinished(ctx, "ack", unfinished)
	}
}

// deliveries are the receipts of an ack, one for each conversation whose cursor
// moved. A device that is not the furthest of its user's says nothing new.
func (s *Service) deliveries(ctx context.Context, ack *impart.Ack, epoch impart.Epoch, moves []store.Advance, results []store.Advanced) []bus.Message {
	var receipts []bus.Message
	at := map[impart.ConvID]int{}
	for i := range results {
		result := &results[i]
		if result.Err != nil || !result.Moved {
			continue
		}
		s.metrics.acked.Inc()
		conv := moves[i].Conv
		if epoch == 0 || result.Furthest > result.Delivered || !s.sendsReceipts(ctx, conv) {
			continue
		}
		if k, ok := at[conv]; ok {
			receipts[k].Delivered = max(receipts[k].Delivered, result.Furthest)
			receipts[k].Read = max(receipts[k].Read, result.Read)
			continue
		}
		at[conv] = len(receipts)
		receipts = append(receipts, receipt(ack.Session, epoch, conv, result.Furthest, result.Read))
	}
	return receipts
}

// receipt tells how far a user has come.
func receipt(session impart.Session, epoch impart.Epoch, conv impart.ConvID, furthest, read impart.Seq) bus.Message {
	return bus.Message{
		Kind: bus.Receipt, Conv: conv, User: session.User, Device: session.Device, Session: session.Number,
		Delivered: furthest, Read: read, Epoch: epoch,
	}
}

// epochBefore is the epoch that a receipt is sent under, 0 if it is not known.
// It is looked up before the cursors move: should it be raised in between, the
// receipt is of the older epoch, and nobody takes its seqs for those of the
// newer one.
func (s *Service) epochBefore(ctx context.Context, asked impart.Epoch) impart.Epoch {
	if asked != 0 {
		return asked // or the store refuses the move
	}
	epoch, err := s.Epoch(ctx)
	if err != nil {
		return 0
	}
	return epoch
}

// sendsReceipts reports whether a conversation is small enough for receipts. A
// look-up that fails costs a receipt, which nobody relies on.
func (s *Service) sendsReceipts(ctx context.Context, conv impart.ConvID) bool {
	audience, err := s.recentAudience(ctx, conv)
	return err == nil && audience.Current <= impart.MaxReceipts
}
