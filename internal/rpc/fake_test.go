package rpc

import (
	"context"
	"sync"

	"github.com/impart-im/impart"
)

// fake is rules that note what they are asked and answer what they are told to.
type fake struct {
	mu      sync.Mutex
	asked   []any
	answers []any                                                // results of the next call, in order; the last is its error
	hold    func(ctx context.Context)                            // before every answer
	send    func(context.Context, []impart.Send) []impart.Sent   // instead of answers
	members func(impart.ConvID, int64) (*impart.Audience, error) // instead of answers
	epoch   impart.Epoch
}

func (f *fake) call(ctx context.Context, args ...any) []any {
	if f.hold != nil {
		f.hold(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = args
	return f.answers
}

func give[A any](out []any) (a A, err error) {
	a, _ = out[0].(A)
	err, _ = out[1].(error)
	return a, err
}

func (f *fake) Hello(ctx context.Context, h impart.Hello) (impart.Welcome, error) {
	return give[impart.Welcome](f.call(ctx, h))
}

func (f *fake) Visit(ctx context.Context, id impart.Identity, d impart.DeviceID, install string) (impart.Session, error) {
	return give[impart.Session](f.call(ctx, id, d, install))
}

func (f *fake) Authorize(ctx context.Context, id impart.Identity) error {
	err, _ := f.call(ctx, id)[0].(error)
	return err
}

func (f *fake) Standings(ctx context.Context, q []impart.StandingQuery) ([]impart.Standing, error) {
	return give[[]impart.Standing](f.call(ctx, q))
}

func (f *fake) Epoch(ctx context.Context) (impart.Epoch, error) {
	if f.epoch != 0 {
		return f.epoch, nil
	}
	return give[impart.Epoch](f.call(ctx))
}

func (f *fake) Send(ctx context.Context, s []impart.Send) []impart.Sent {
	if f.send != nil {
		return f.send(ctx, s)
	}
	return f.call(ctx, s)[0].([]impart.Sent)
}

func (f *fake) Recall(ctx context.Context, r impart.Recall) (impart.Sent, error) {
	return give[impart.Sent](f.call(ctx, r))
}

func (f *fake) Sync(ctx context.Context, s impart.Sync) (impart.Page, error) {
	return give[impart.Page](f.call(ctx, s))
}

func (f *fake) Pull(ctx context.Context, p impart.Pull) (impart.Pulled, error) {
	return give[impart.Pulled](f.call(ctx, p))
}

func (f *fake) Convs(ctx context.Context, c impart.Convs) (impart.ConvsPage, error) {
	return give[impart.ConvsPage](f.call(ctx, c))
}

func (f *fake) Ack(ctx context.Context, a impart.Ack) []impart.Acked {
	return f.call(ctx, a)[0].([]impart.Acked)
}

func (f *fake) Read(ctx context.Context, r impart.Read) (impart.Seq, error) {
	return give[impart.Seq](f.call(ctx, r))
}

func (f *fake) Who(ctx context.Context, w impart.Who) (impart.Report, error) {
	return give[impart.Report](f.call(ctx, w))
}

func (f *fake) Typing(ctx context.Context, u impart.UserID, c impart.ConvID) error {
	err, _ := f.call(ctx, u, c)[0].(error)
	return err
}

func (f *fake) Range(ctx context.Context, c impart.ConvID, from, through impart.Seq) (impart.Range, error) {
	return give[impart.Range](f.call(ctx, c, from, through))
}

func (f *fake) Audience(ctx context.Context, c impart.ConvID, version int64) (*impart.Audience, error) {
	if f.members != nil {
		return f.members(c, version)
	}
	return give[*impart.Audience](f.call(ctx, c, version))
}

func (f *fake) Lagging(ctx context.Context, s impart.Session, all bool, limit int) (impart.LaggingPage, error) {
	return give[impart.LaggingPage](f.call(ctx, s, all, limit))
}

func (f *fake) Lags(ctx context.Context, q []impart.LagQuery) ([]impart.Lag, error) {
	return give[[]impart.Lag](f.call(ctx, q))
}

func (f *fake) Written(ctx context.Context, since impart.Millis) (impart.Written, error) {
	return give[impart.Written](f.call(ctx, since))
}

func (f *fake) PutUser(ctx context.Context, u impart.UserID, disabled *bool) (impart.UserInfo, error) {
	return give[impart.UserInfo](f.call(ctx, u, disabled))
}

func (f *fake) RevokeUser(ctx context.Context, u impart.UserID) (impart.UserInfo, error) {
	return give[impart.UserInfo](f.call(ctx, u))
}

func (f *fake) User(ctx context.Context, u impart.UserID) (impart.UserInfo, error) {
	return give[impart.UserInfo](f.call(ctx, u))
}

func (f *fake) PutConversation(ctx context.Context, spec impart.ConvSpec) (info impart.ConvInfo, created bool, err error) {
	out := f.call(ctx, spec)
	info, _ = out[0].(impart.ConvInfo)
	created, _ = out[1].(bool)
	err, _ = out[2].(error)
	return info, created, err
}

func (f *fake) Conversation(ctx context.Context, c impart.ConvID) (impart.ConvInfo, error) {
	return give[impart.ConvInfo](f.call(ctx, c))
}

func (f *fake) PutMember(ctx context.Context, c impart.ConvID, m impart.Member) (impart.ConvInfo, error) {
	return give[impart.ConvInfo](f.call(ctx, c, m))
}

func (f *fake) RemoveMember(ctx context.Context, c impart.ConvID, u impart.UserID) (impart.ConvInfo, error) {
	return give[impart.ConvInfo](f.call(ctx, c, u))
}

func (f *fake) Delivery(ctx context.Context, c impart.ConvID, seq impart.Seq) (impart.Delivery, error) {
	return give[impart.Delivery](f.call(ctx, c, seq))
}

func (f *fake) Devices(ctx context.Context, d impart.DeviceID, u impart.UserID) ([]impart.DeviceInfo, error) {
	return give[[]impart.DeviceInfo](f.call(ctx, d, u))
}

func (f *fake) RaiseEpoch(ctx context.Context) (impart.Epoch, error) {
	return give[impart.Epoch](f.call(ctx))
}

func (f *fake) History(ctx context.Context) (impart.HistoryInfo, error) {
	return give[impart.HistoryInfo](f.call(ctx))
}
