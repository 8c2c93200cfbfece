package logic

import (
	"cmp"
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

const (
	// pullWidth is among how many conversations a page is shared at a time.
	pullWidth = 10
	// pullAhead is how many lagging conversations are looked at, even for a small
	// page, so that some that cannot be read do not hide those behind them.
	pullAhead = 100
	// convRoom is what a conversation takes of a reply frame besides its events.
	convRoom = 512
	// pullTries is how often a page is begun anew because the epoch was raised.
	pullTries = 3
)

// Pull implements [impart.Log].
//
// Conversations take turns, those that have waited longest first: a turn is the
// room of the page, in events and in bytes, divided by the number of
// conversations that want some of it (at most [pullWidth]). When each has had a
// turn, what is left is given round again in the same way. Acknowledging a page
// puts its conversations at the end of the line, so that each of C lagging
// conversations is served within C / pullWidth pages, however much the others
// have (in more where single messages are so large that a few fill a page).
// Nothing of this is remembered between two pulls: the order is that of the
// cursors in the store, and until they move, the page is the same.
//
// A conversation that cannot be read is reported, and does not count as more to
// come: it is tried again by every pull, but nobody is told to pull for it alone.
func (s *Service) Pull(ctx context.Context, pull impart.Pull) (impart.Pulled, error) {
	limit, err := checkLimit(pull.Limit)
	if err = first(err, checkSession(pull.Session)); err != nil {
		return impart.Pulled{}, s.answer(ctx, "pull", err)
	}
	for range pullTries {
		var pulled impart.Pulled
		turn := s.ledger.begin()
		pulled, err = s.pull(ctx, pull.Session, limit)
		for i := range pulled.Convs {
			err = first(err, s.promiseShown(turn, pulled.Convs[i].Events, pulled.Epoch))
		}
		if err == nil {
			return pulled, nil
		}
		if impart.CodeOf(err) != impart.EpochChanged {
			break
		}
	}
	return impart.Pulled{}, s.answer(ctx, "pull", err)
}

// pull makes one page, all of one epoch.
func (s *Service) pull(ctx context.Context, session impart.Session, limit int) (impart.Pulled, error) {
	p := puller{service: s, user: session.User, events: limit, bytes: frameRoom}
	ask := min(max(limit, pullAhead), impart.MaxLimit)
	for {
		line, err := s.lagging(ctx, session, false, ask)
		if err != nil {
			return impart.Pulled{}, err
		}
		if err := p.join(line); err != nil {
			return impart.Pulled{}, err
		}
		if err := p.serve(ctx); err != nil {
			return impart.Pulled{}, err
		}
		if !line.More || p.full() || ask == impart.MaxLimit {
			return p.pulled(line.More), nil
		}
		ask = impart.MaxLimit
	}
}

// puller fills one page.
type puller struct {
	service *Service
	user    impart.UserID
	epoch   impart.Epoch
	events  int        // room left, in events
	bytes   int        // room left, in bytes
	line    []*waiting // everybody who lags, in the order of their turns
}

// waiting is one conversation in the line.
type waiting struct {
	page   impart.Page // what it has been given; Through is where its next turn begins
	served bool        // it has had a turn
	wants  bool        // it may take another
	failed impart.Code
}

func (p *puller) full() bool { return p.events == 0 || p.bytes <= convRoom }

// join adds conversations to the line that are not in it yet.
func (p *puller) join(lagging impart.LaggingPage) error {
	if p.epoch != 0 && p.epoch != lagging.Epoch {
		return &impart.Error{Code: impart.EpochChanged, Message: "the epoch was raised", Epoch: lagging.Epoch}
	}
	p.epoch = lagging.Epoch
	known := make(map[impart.ConvID]bool, len(p.line))
	for _, w := range p.line {
		known[w.page.Conv] = true
	}
	for _, state := range lagging.Convs {
		if !known[state.Conv] {
			p.line = append(p.line, &waiting{page: impart.Page{Conv: state.Conv, Through: state.Delivered}, wants: true})
		}
	}
	return nil
}

// serve gives turns until the page is full or nobody wants more.
func (p *puller) serve(ctx context.Context) error {
	for !p.full() {
		wanting := 0
		for _, w := range p.line {
			if w.wants {
				wanting++
			}
		}
		if wanting == 0 {
			return nil
		}
		wanting = min(wanting, pullWidth)
		events, bytes := max(1, p.events/wanting), max(1, p.bytes/wanting)
		for _, w := range p.line {
			if !w.wants {
				continue
			}
			if p.full() {
				return nil
			}
			if err := p.turn(ctx, w, min(events, p.events), min(bytes, p.bytes)); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn gives one conversation room for some events. The error is one of the
// whole page.
func (p *puller) turn(ctx context.Context, w *waiting, events, bytes int) error {
	after, around := w.page.Through, 0
	if !w.served {
		around = convRoom
	}
	page, err := p.service.store.Page(ctx, store.PageQuery{
		User: p.user, Conv: w.page.Conv, After: after, Limit: events, MaxBytes: max(1, bytes-around), Epoch: p.epoch,
	})
	if err != nil {
		if ctx.Err() != nil || impart.CodeOf(err) == impart.EpochChanged {
			return cmp.Or(ctx.Err(), err)
		}
		w.wants = false
		if !w.served {
			w.failed = impart.CodeOf(p.service.answer(ctx, "pull", err))
			p.bytes -= around
		}
		return nil
	}
	size := around
	for i := range page.Events {
		size += store.Size(&page.Events[i])
	}
	if size > p.bytes && p.bytes < frameRoom {
		// The first event of a page comes whatever its size. It does not fit into what
		// is left of the frame and waits for the next one.
		p.bytes = 0
		return nil
	}
	p.events -= len(page.Events)
	p.bytes -= size
	if len(page.Events) == 0 && page.Through <= after {
		page.More = false // a turn that brings nothing forward would be given for ever
	}
	if w.served {
		page.Events = append(w.page.Events, page.Events...)
	}
	w.page, w.served, w.wants = page, true, page.More
	return nil
}

// pulled is the page as it stands. more says that the line goes on behind those
// who have been looked at.
func (p *puller) pulled(more bool) impart.Pulled {
	pulled := impart.Pulled{More: more, Epoch: p.epoch}
	for _, w := range p.line {
		switch {
		case w.served:
			pulled.Convs = append(pulled.Convs, w.page)
			pulled.More = pulled.More || w.page.More
		case w.failed != "":
			pulled.Failed = append(pulled.Failed, impart.PullFailure{Conv: w.page.Conv, Code: w.failed})
		default:
			pulled.More = true
		}
	}
	return pulled
}
