package logic

import (
	"context"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

const (
	// rangeLimit is how many events a Range reads at most, and rangeRoom how many
	// bytes it gives back.
	rangeLimit = 200
	rangeRoom  = impart.MaxPage
	// lagsLimit is how many devices the store is asked for at a time.
	lagsLimit = impart.MaxLimit
	// writtenLimit is how many conversations the store is asked for at a time.
	writtenLimit = 1000
	// writtenMargin is by how much the windows of Written overlap beyond the longest
	// commit: for commits of other nodes, and for one not yet counted.
	writtenMargin = 2 * time.Second
)

// Range implements [impart.Fanout].
func (s *Service) Range(ctx context.Context, conv impart.ConvID, from, through impart.Seq) (impart.Range, error) {
	err := checkID("conv", conv)
	if err == nil && (from < 1 || through < from) {
		err = impart.Errorf(impart.BadFrame, "no events lie from %d through %d", from, through)
	}
	if err != nil {
		return impart.Range{}, s.answer(ctx, "range", err)
	}
	look := s.look()
	turn := s.ledger.begin()
	part, err := s.store.Range(ctx, conv, from, through, rangeLimit)
	if err == nil {
		err = s.promiseShown(turn, part.Events, part.Epoch)
	}
	if err != nil {
		return impart.Range{}, s.answer(ctx, "range", err)
	}
	audience, err := s.audience(ctx, conv, part.Members, look)
	if err != nil {
		return impart.Range{}, s.answer(ctx, "range", err)
	}
	s.epoch.saw(part.Epoch)
	events, cut := fit(part.Events, rangeRoom)
	return impart.Range{
		Events: events, Audience: audience, Head: part.Head, Epoch: part.Epoch, More: part.More || cut,
	}, nil
}

// fit is the first events that take no more than room bytes, but at least one;
// cut says that some were left out.
func fit(events []impart.Event, room int) (fitting []impart.Event, cut bool) {
	for i := range events {
		room -= store.Size(&events[i])
		if room < 0 && i > 0 {
			return events[:i:i], true
		}
	}
	return events, false
}

// Lagging implements [impart.Fanout].
func (s *Service) Lagging(ctx context.Context, session impart.Session, all bool, limit int) (impart.LaggingPage, error) {
	limit, err := checkLimit(limit)
	if err = first(err, checkSession(session)); err != nil {
		return impart.LaggingPage{}, s.answer(ctx, "lagging", err)
	}
	page, err := s.lagging(ctx, session, all, limit)
	if err != nil {
		return impart.LaggingPage{}, s.answer(ctx, "lagging", err)
	}
	return page, nil
}

func (s *Service) lagging(ctx context.Context, session impart.Session, all bool, limit int) (impart.LaggingPage, error) {
	page, err := s.store.Lagging(ctx, store.LaggingQuery{
		User: session.User, Device: session.Device, Install: session.Install, All: all, Limit: limit,
	})
	if err == nil {
		s.epoch.saw(page.Epoch)
	}
	return page, err
}

// Lags implements [impart.Fanout].
func (s *Service) Lags(ctx context.Context, queries []impart.LagQuery) ([]impart.Lag, error) {
	lags := make([]impart.Lag, 0, len(queries))
	for len(queries) > 0 {
		n := min(len(queries), lagsLimit)
		part, err := s.store.Lags(ctx, queries[:n])
		if err != nil {
			return nil, s.answer(ctx, "lags", err)
		}
		lags, queries = append(lags, part...), queries[n:]
	}
	return lags, nil
}

// Written implements [impart.Fanout].
//
// An append is stamped before it commits, so one that was under way during the
// last call shows up now with an older time. Each call therefore looks back by
// the longest commit known at its own time, in which such an append is counted
// already. The result has one entry for each conversation written since: the
// write rate is its bound, and the audiences in it are shared with the cache.
func (s *Service) Written(ctx context.Context, since impart.Millis) (impart.Written, error) {
	if since > 0 {
		back := s.store.Stats().Slowest + impart.Millis(writtenMargin.Milliseconds())
		since = max(1, since-back)
	}
	look := s.look()
	heads, now, epoch, err := s.written(ctx, since)
	if err != nil {
		return impart.Written{}, s.answer(ctx, "written", err)
	}
	written := impart.Written{Next: now, Epoch: epoch, Convs: make([]impart.WrittenConv, 0, len(heads))}
	for i := range heads {
		audience, err := s.audience(ctx, heads[i].Conv, heads[i].Members, look)
		if impart.CodeOf(err) == impart.NotFound {
			continue
		}
		if err != nil {
			return impart.Written{}, s.answer(ctx, "written", err)
		}
		written.Convs = append(written.Convs, impart.WrittenConv{Conv: heads[i].Conv, Head: heads[i].Head, Audience: audience})
	}
	s.epoch.saw(epoch)
	return written, nil
}

// written reads all pages of heads. now is the clock before the first of them:
// what is written while later ones are read belongs to the next call.
func (s *Service) written(ctx context.Context, since impart.Millis) (heads []store.Head, now impart.Millis, epoch impart.Epoch, err error) {
	limit := writtenLimit
	place := map[impart.ConvID]int{} // a conversation is moved to the end when it is written again
	for from := since; ; {
		page, err := s.store.Written(ctx, from, limit)
		if err != nil {
			return nil, 0, 0, err
		}
		if now == 0 {
			now = page.Now
		}
		for _, head := range page.Heads {
			if i, ok := place[head.Conv]; ok {
				heads[i] = head
				continue
			}
			place[head.Conv] = len(heads)
			heads = append(heads, head)
		}
		if !page.More || len(page.Heads) == 0 {
			return heads, now, page.Epoch, nil
		}
		last := page.Heads[len(page.Heads)-1].At
		if last >= now {
			return heads, now, page.Epoch, nil
		}
		if last == from {
			limit *= 2 // more of them share this millisecond than were asked for
		}
		from = last
	}
}
