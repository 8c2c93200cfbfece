package logic

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
)

// Typing implements [impart.Cursors]. It is counted against the same budget as
// sends, because it reaches as many devices. A membership that another node
// ended may be missed for [audienceAge].
func (s *Service) Typing(ctx context.Context, user impart.UserID, conv impart.ConvID) error {
	err := first(checkID("user", user), checkID("conv", conv))
	if err == nil {
		err = s.budgets.spend(user, s.cfg.Now())
	}
	if err != nil {
		return s.answer(ctx, "typing", err)
	}
	audience, err := s.recentAudience(ctx, conv)
	if impart.CodeOf(err) == impart.NotFound || err == nil && !audience.Members[user].Open() {
		err = impart.Errorf(impart.NotMember, "not a member of this conversation")
	}
	if err != nil {
		return s.answer(ctx, "typing", err)
	}
	s.publish(ctx, bus.Message{Kind: bus.Typing, Conv: conv, User: user})
	return nil
}
