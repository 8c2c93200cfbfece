// Package logic is every rule of delivery: it implements [impart.Logic] and
// [impart.Admin] on a store and a bus. It promises that nothing is answered or
// published before its transaction has committed, and that one bad request of a
// batch fails alone. What it publishes and what it caches may be lost at any
// moment: both are rebuilt from the store. It knows no socket and no frame.
package logic

import (
	"context"

	"github.com/impart-im/impart"
)

// Service implements [impart.Logic] and [impart.Admin]. Its methods are safe
// for concurrent use.
type Service struct{ cfg Config }

var (
	_ impart.Logic = (*Service)(nil)
	_ impart.Admin = (*Service)(nil)
)

// New starts a service; the error says what is wrong with the configuration.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Service{cfg: cfg.withDefaults()}, nil
}

// Close ends the background work and returns when it has ended. Requests under
// way are not waited for: stop what calls the service first, and close the bus
// and the store after it.
func (s *Service) Close() error { return nil }

var errSoon = impart.Errorf(impart.Unavailable, "not built yet")

func (s *Service) Hello(ctx context.Context, hello impart.Hello) (impart.Welcome, error) {
	return impart.Welcome{}, errSoon
}
func (s *Service) Visit(ctx context.Context, id impart.Identity, device impart.DeviceID, install string) (impart.Session, error) {
	return impart.Session{}, errSoon
}
func (s *Service) Authorize(ctx context.Context, id impart.Identity) error { return errSoon }
func (s *Service) Epoch(ctx context.Context) (impart.Epoch, error)         { return 0, errSoon }
func (s *Service) Send(ctx context.Context, sends []impart.Send) []impart.Sent {
	return make([]impart.Sent, len(sends))
}
func (s *Service) Recall(ctx context.Context, recall impart.Recall) (impart.Sent, error) {
	return impart.Sent{}, errSoon
}
func (s *Service) Sync(ctx context.Context, sync impart.Sync) (impart.Page, error) {
	return impart.Page{}, errSoon
}
func (s *Service) Pull(ctx context.Context, pull impart.Pull) (impart.Pulled, error) {
	return impart.Pulled{}, errSoon
}
func (s *Service) Convs(ctx context.Context, convs impart.Convs) (impart.ConvsPage, error) {
	return impart.ConvsPage{}, errSoon
}
func (s *Service) Ack(ctx context.Context, ack impart.Ack) []impart.Acked {
	return make([]impart.Acked, len(ack.Items))
}
func (s *Service) Read(ctx context.Context, read impart.Read) (impart.Seq, error) { return 0, errSoon }
func (s *Service) Who(ctx context.Context, who impart.Who) (impart.Report, error) {
	return impart.Report{}, errSoon
}
func (s *Service) Typing(ctx context.Context, user impart.UserID, conv impart.ConvID) error {
	return errSoon
}
func (s *Service) Range(ctx context.Context, conv impart.ConvID, from, through impart.Seq) (impart.Range, error) {
	return impart.Range{}, errSoon
}
func (s *Service) Lagging(ctx context.Context, session impart.Session, all bool, limit int) (impart.LaggingPage, error) {
	return impart.LaggingPage{}, errSoon
}
func (s *Service) Lags(ctx context.Context, queries []impart.LagQuery) ([]impart.Lag, error) {
	return nil, errSoon
}
func (s *Service) Written(ctx context.Context, since impart.Millis) (impart.Written, error) {
	return impart.Written{}, errSoon
}
func (s *Service) PutUser(ctx context.Context, user impart.UserID, disabled *bool) (impart.UserInfo, error) {
	return impart.UserInfo{}, errSoon
}
func (s *Service) RevokeUser(ctx context.Context, user impart.UserID) (impart.UserInfo, error) {
	return impart.UserInfo{}, errSoon
}
func (s *Service) User(ctx context.Context, user impart.UserID) (impart.UserInfo, error) {
	return impart.UserInfo{}, errSoon
}
func (s *Service) PutConversation(ctx context.Context, spec impart.ConvSpec) (impart.ConvInfo, bool, error) {
	return impart.ConvInfo{}, false, errSoon
}
func (s *Service) Conversation(ctx context.Context, conv impart.ConvID) (impart.ConvInfo, error) {
	return impart.ConvInfo{}, errSoon
}
func (s *Service) PutMember(ctx context.Context, conv impart.ConvID, member impart.Member) (impart.ConvInfo, error) {
	return impart.ConvInfo{}, errSoon
}
func (s *Service) RemoveMember(ctx context.Context, conv impart.ConvID, user impart.UserID) (impart.ConvInfo, error) {
	return impart.ConvInfo{}, errSoon
}
func (s *Service) Delivery(ctx context.Context, conv impart.ConvID, seq impart.Seq) (impart.Delivery, error) {
	return impart.Delivery{}, errSoon
}
func (s *Service) Devices(ctx context.Context, device impart.DeviceID, user impart.UserID) ([]impart.DeviceInfo, error) {
	return nil, errSoon
}
func (s *Service) RaiseEpoch(ctx context.Context) (impart.Epoch, error) { return 0, errSoon }
func (s *Service) Audience(ctx context.Context, conv impart.ConvID) (*impart.Audience, error) {
	return nil, errSoon
}
