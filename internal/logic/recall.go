package logic

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Recall implements [impart.Log]. It is a send of its own kind: idempotent by
// its cmid, counted against the same budget, and an event of the log.
func (s *Service) Recall(ctx context.Context, recall impart.Recall) (impart.Sent, error) {
	if err := s.admitRecall(&recall); err != nil {
		return impart.Sent{}, s.answer(ctx, "recall", err)
	}
	item := store.Append{
		Kind: impart.KindRecall, Sender: recall.Sender, Device: recall.Device, Conv: recall.Conv, CMID: recall.CMID,
		Target: recall.Seq, TargetMID: recall.MID, Epoch: recall.Epoch,
	}
	item.MID, item.At = s.stamp()
	item.Hash = contentHash(&item)
	if s.cfg.RecallWindow > 0 {
		item.NotBefore = item.At - impart.Millis(s.cfg.RecallWindow.Milliseconds())
	}
	result := s.resolve(ctx, "recall", []store.Append{item})[0]
	return outcome(item.Conv, result), result.Err
}

func (s *Service) admitRecall(recall *impart.Recall) error {
	err := first(
		checkID("conv", recall.Conv),
		impart.CheckID("cmid", string(recall.CMID), impart.MaxCMID),
		checkOptional("mid", recall.MID, impart.MaxID),
		checkID("sender", recall.Sender),
		checkOptional("device", recall.Device, impart.MaxID),
	)
	if err != nil {
		return err
	}
	return s.budgets.spend(recall.Sender, s.cfg.Now())
}
