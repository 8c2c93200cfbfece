package logic

import (
	"context"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/store"
)

const (
	// cachedUsers is how many users are kept in one generation of the cache.
	cachedUsers = 64 << 10
	// userAge is how long what is known of a user stands, if no [bus.Revoked] ends
	// it before.
	userAge = 10 * time.Second
	// unheardAge is the same while the bus brings no news.
	unheardAge = time.Second
)

// knownUser is what was loaded of a user, and when.
type knownUser struct {
	info impart.UserInfo
	at   time.Time
}

// Hello implements [impart.Sessions]. The user is looked at again after the
// session was raised: a revocation that came in between finds either the new
// session, or this refusal.
func (s *Service) Hello(ctx context.Context, hello impart.Hello) (impart.Welcome, error) {
	said := time.Now().Add(-hello.Age)
	if err := s.checkHello(ctx, &hello); err != nil {
		return impart.Welcome{}, s.answer(ctx, "hello", err)
	}
	now := s.clock.now()
	turn := s.ledger.begin()
	device, err := s.store.Hello(ctx, store.Hello{
		User: hello.Identity.User, Device: hello.Device, Install: hello.Install, N: hello.N, History: hello.History, Said: said,
	})
	if err == nil {
		err = s.authorize(ctx, hello.Identity)
	}
	if err == nil {
		err = s.promise(turn, shelfOthers, store.Promise{
			What: store.PromisedSession, User: hello.Identity.User, Device: hello.Device, Install: device.Install, Number: device.Session, Epoch: device.Epoch,
		})
	}
	if err != nil {
		return impart.Welcome{}, s.answer(ctx, "hello", err)
	}
	s.epoch.saw(device.Epoch)
	s.publish(ctx, bus.Message{
		Kind: bus.Takeover, User: hello.Identity.User, Device: hello.Device, Session: device.Session,
	})
	return impart.Welcome{
		Session: impart.Session{
			User: hello.Identity.User, Device: hello.Device, Install: device.Install, Number: device.Session,
		},
		N: device.N, Fresh: device.Fresh, Epoch: device.Epoch, Now: now,
	}, nil
}

func (s *Service) checkHello(ctx context.Context, hello *impart.Hello) error {
	err := first(
		checkID("user", hello.Identity.User),
		checkID("device", hello.Device),
		checkOptional("install", hello.Install, impart.MaxID),
		checkCount("n", hello.N),
		checkCount("history", hello.History),
	)
	if err != nil {
		return err
	}
	return s.authorize(ctx, hello.Identity)
}

// Visit implements [impart.Sessions].
func (s *Service) Visit(ctx context.Context, id impart.Identity, device impart.DeviceID, install string) (impart.Session, error) {
	err := first(
		checkID("user", id.User),
		checkID("device", device),
		checkOptional("install", install, impart.MaxID),
	)
	if err == nil {
		err = s.authorize(ctx, id)
	}
	if err != nil {
		return impart.Session{}, s.answer(ctx, "visit", err)
	}
	known, err := s.store.Visit(ctx, id.User, device, install)
	if err != nil {
		return impart.Session{}, s.answer(ctx, "visit", err)
	}
	s.epoch.saw(known.Epoch)
	return impart.Session{User: id.User, Device: device, Install: known.Install}, nil
}

// Standings implements [impart.Sessions]. What is known of users in memory does not count.
func (s *Service) Standings(ctx context.Context, queries []impart.StandingQuery) ([]impart.Standing, error) {
	sessions := make([]impart.Session, len(queries))
	for i := range queries {
		sessions[i] = queries[i].Session
	}
	known, err := s.store.Standings(ctx, sessions)
	if err != nil {
		return nil, s.answer(ctx, "standings", err)
	}
	out := make([]impart.Standing, len(queries))
	for i, q := range queries {
		switch {
		case known[i].Disabled || q.Issued < known[i].Revoked:
			out[i] = impart.Barred
		case q.Session.Number < known[i].Session:
			out[i] = impart.Superseded
		}
	}
	return out, nil
}

// Authorize implements [impart.Sessions].
func (s *Service) Authorize(ctx context.Context, id impart.Identity) error {
	return s.answer(ctx, "authorize", s.authorize(ctx, id))
}

func (s *Service) authorize(ctx context.Context, id impart.Identity) error {
	if err := checkID("user", id.User); err != nil {
		return err
	}
	if id.User == impart.System {
		return impart.Errorf(impart.Unauthenticated, "%q is reserved for the operator; log in as another user", impart.System)
	}
	info, err := s.user(ctx, id.User)
	switch {
	case err != nil:
		return err
	case info.Disabled:
		return impart.Errorf(impart.Unauthenticated, "this user is disabled; the operator can readmit them")
	case id.Issued < info.Revoked:
		return impart.Errorf(impart.Unauthenticated, "this token was revoked; get a new one")
	}
	return nil
}

// user is what the store knows of a user, [userAge] old at most, or [unheardAge]. An unknown
// user is nobody's enemy.
func (s *Service) user(ctx context.Context, user impart.UserID) (impart.UserInfo, error) {
	now, age := s.cfg.Now(), userAge
	if s.bus.Health() != nil {
		age = unheardAge
	}
	if known, ok := s.users.get(user); ok && now.Sub(known.at) < age {
		return known.info, nil
	}
	turn := s.users.since()
	info, err := s.store.User(ctx, user)
	if impart.CodeOf(err) == impart.NotFound {
		info, err = impart.UserInfo{User: user}, nil
	}
	if err != nil {
		return impart.UserInfo{}, err
	}
	s.users.putSince(turn, user, knownUser{info, now}, 1)
	return info, nil
}
