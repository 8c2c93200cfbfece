package logic

import (
	"context"
	"time"

	"github.com/impart-im/impart"
)

const (
	// cachedMembers is how many members of cached audiences one generation of the
	// cache holds.
	cachedMembers = 128 << 10
	// audienceAge is how long an audience is taken for the present one where nothing
	// hangs on it but a receipt or a typing note.
	audienceAge = 2 * time.Second
)

// knownAudience is an audience and when it was last known to be the present one.
type knownAudience struct {
	audience *impart.Audience
	at       time.Time
}

// look is a moment before something was read from the store.
type look struct {
	at   time.Time
	turn uint64 // of the cache of audiences
}

func (s *Service) look() look { return look{s.cfg.Now(), s.audiences.since()} }

// audience is who may see a conversation, of the given members' version or a
// later one. The version was read after since: an audience that has it was the
// present one then, so that the receipts after a push need not ask. A later one is as good for the events of an earlier snapshot:
// periods are spans of seqs, and a change only ever opens or closes one at the
// end of the log or, where history is open to all, lets somebody see more.
func (s *Service) audience(ctx context.Context, conv impart.ConvID, version int64, since look) (*impart.Audience, error) {
	if known, ok := s.audiences.get(conv); ok && known.audience.Version >= version {
		if since.at.After(known.at) {
			s.keepAudience(since.turn, knownAudience{known.audience, since.at})
		}
		s.metrics.audiences.WithLabelValues("cache").Inc()
		return known.audience, nil
	}
	return s.loadAudience(ctx, conv)
}

func (s *Service) loadAudience(ctx context.Context, conv impart.ConvID) (*impart.Audience, error) {
	since := s.look()
	audience, err := s.store.Audience(ctx, conv)
	if err != nil {
		return nil, err
	}
	s.metrics.audiences.WithLabelValues("store").Inc()
	s.keepAudience(since.turn, knownAudience{audience, since.at})
	return audience, nil
}

// keepAudience caches an audience that was loaded in a turn of the cache. Of two
// that were loaded at once, a later one stays; and should an older one win the
// race, its version gives it away.
func (s *Service) keepAudience(turn uint64, known knownAudience) {
	conv := known.audience.Conv
	if present, ok := s.audiences.get(conv); ok && present.audience.Version > known.audience.Version {
		return
	}
	s.audiences.putSince(turn, conv, known, 1+len(known.audience.Members))
}

// recentAudience is an audience that was the present one [audienceAge] ago or
// later. To find out whether a cached one still is costs the store one row, not
// all the members.
func (s *Service) recentAudience(ctx context.Context, conv impart.ConvID) (*impart.Audience, error) {
	since := s.look()
	known, ok := s.audiences.get(conv)
	if !ok {
		return s.loadAudience(ctx, conv)
	}
	if since.at.Sub(known.at) < audienceAge {
		s.metrics.audiences.WithLabelValues("cache").Inc()
		return known.audience, nil
	}
	present, err := s.store.Range(ctx, conv, 1, 1, 1)
	if err != nil {
		return nil, err
	}
	if present.Members > known.audience.Version {
		return s.loadAudience(ctx, conv)
	}
	s.metrics.audiences.WithLabelValues("cache").Inc()
	s.keepAudience(since.turn, knownAudience{known.audience, since.at})
	return known.audience, nil
}

// Audience implements [impart.Fanout]. The one of now is the present one as far as
// this node has changed it, and [audienceAge] old at most where another one has.
func (s *Service) Audience(ctx context.Context, conv impart.ConvID, version int64) (*impart.Audience, error) {
	if err := checkID("conv", conv); err != nil {
		return nil, s.answer(ctx, "audience", err)
	}
	var audience *impart.Audience
	var err error
	if version > 0 {
		audience, err = s.audience(ctx, conv, version, look{})
	} else {
		audience, err = s.recentAudience(ctx, conv)
	}
	if err != nil {
		return nil, s.answer(ctx, "audience", err)
	}
	return audience, nil
}
