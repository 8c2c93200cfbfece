package logic

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
)

// PutUser implements [impart.Admin].
func (s *Service) PutUser(ctx context.Context, user impart.UserID, disabled *bool) (impart.UserInfo, error) {
	if err := checkUser(user); err != nil {
		return impart.UserInfo{}, s.answer(ctx, "put user", err)
	}
	ctx, done := detach(ctx)
	defer done()
	info, err := s.store.PutUser(ctx, user, disabled, nil)
	if err != nil {
		return impart.UserInfo{}, s.answer(ctx, "put user", err)
	}
	s.users.drop(user)
	if disabled != nil && *disabled {
		s.publish(ctx, bus.Message{Kind: bus.Revoked, User: user})
	}
	return info, nil
}

// RevokeUser implements [impart.Admin].
func (s *Service) RevokeUser(ctx context.Context, user impart.UserID) (impart.UserInfo, error) {
	if err := checkUser(user); err != nil {
		return impart.UserInfo{}, s.answer(ctx, "revoke user", err)
	}
	ctx, done := detach(ctx)
	defer done()
	// Read anew: a token that was made before must not outlive this, nor one of later be void.
	_, err := s.readClock(ctx)
	if err != nil {
		return impart.UserInfo{}, s.answer(ctx, "revoke user", err)
	}
	now := s.clock.now()
	info, err := s.store.PutUser(ctx, user, nil, &now)
	if err != nil {
		return impart.UserInfo{}, s.answer(ctx, "revoke user", err)
	}
	s.users.drop(user)
	s.publish(ctx, bus.Message{Kind: bus.Revoked, User: user, At: info.Revoked})
	return info, nil
}

// User implements [impart.Admin].
func (s *Service) User(ctx context.Context, user impart.UserID) (impart.UserInfo, error) {
	if err := checkUser(user); err != nil {
		return impart.UserInfo{}, s.answer(ctx, "user", err)
	}
	info, err := s.store.User(ctx, user)
	return info, s.answer(ctx, "user", err)
}

// Delivery implements [impart.Admin].
func (s *Service) Delivery(ctx context.Context, conv impart.ConvID, seq impart.Seq) (impart.Delivery, error) {
	err := checkID("conv", conv)
	if err == nil && seq < 1 {
		err = impart.Errorf(impart.NotFound, "there is no event %d: the first one of a conversation is 1", seq)
	}
	if err != nil {
		return impart.Delivery{}, s.answer(ctx, "delivery", err)
	}
	delivery, err := s.store.Delivery(ctx, conv, seq)
	return delivery, s.answer(ctx, "delivery", err)
}

// Devices implements [impart.Admin].
func (s *Service) Devices(ctx context.Context, device impart.DeviceID, user impart.UserID) ([]impart.DeviceInfo, error) {
	if err := first(checkID("device", device), checkOptional("user", user, impart.MaxID)); err != nil {
		return nil, s.answer(ctx, "devices", err)
	}
	devices, err := s.store.Devices(ctx, device, user)
	if err == nil && len(devices) == 0 {
		err = impart.Errorf(impart.NotFound, "no device has this id")
	}
	return devices, s.answer(ctx, "devices", err)
}

// RaiseEpoch implements [impart.Admin].
func (s *Service) RaiseEpoch(ctx context.Context) (impart.Epoch, error) {
	ctx, done := detach(ctx)
	defer done()
	epoch, err := s.store.RaiseEpoch(ctx, s.clock.now())
	if err != nil {
		return 0, s.answer(ctx, "raise epoch", err)
	}
	s.epoch.saw(epoch)
	s.publish(ctx, bus.Message{Kind: bus.EpochRaised, Epoch: epoch})
	return epoch, nil
}
