package logic

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Read implements [impart.Cursors].
func (s *Service) Read(ctx context.Context, read impart.Read) (impart.Seq, error) {
	err := first(
		checkID("user", read.Session.User),
		checkOptional("device", read.Session.Device, impart.MaxID),
		checkID("conv", read.Conv),
		ctx.Err(),
	)
	if err != nil {
		return 0, s.answer(ctx, "read", err)
	}
	epoch := s.epochBefore(ctx, read.Epoch)
	turn := s.ledger.begin()
	result := s.store.MarkRead(ctx, []store.MarkRead{{
		User: read.Session.User, Epoch: read.Epoch, Conv: read.Conv, Seq: read.Seq,
	}})[0]
	if result.Err == nil && result.Moved {
		result.Err = s.promise(turn, shelfCursors, store.Promise{What: store.PromisedRead, User: read.Session.User, Epoch: epoch, Conv: read.Conv, Seq: result.Read})
	}
	if result.Err != nil {
		return 0, s.answer(ctx, "read", result.Err)
	}
	if result.Moved && epoch != 0 && s.sendsReceipts(ctx, read.Conv) {
		s.publish(ctx, receipt(read.Session, epoch, read.Conv, result.Furthest, result.Read))
	}
	return result.Read, nil
}
