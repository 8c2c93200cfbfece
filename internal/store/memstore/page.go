package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Page implements [store.Log].
func (s *Store) Page(ctx context.Context, q store.PageQuery) (page impart.Page, err error) {
	failed := s.read(ctx, func(st *state) { page, err = s.page(st, &q) })
	if failed != nil {
		return impart.Page{}, failed
	}
	if s.breaks[BreakSnapshot] && err == nil {
		head := page.Head
		time.Sleep(time.Millisecond)
		if failed = s.read(ctx, func(st *state) { page, err = s.page(st, &q) }); failed != nil {
			return impart.Page{}, failed
		}
		page.Head = head
	}
	return page, err
}

func (s *Store) page(st *state, q *store.PageQuery) (impart.Page, error) {
	if err := s.checkEpoch(st, q.Epoch); err != nil {
		return impart.Page{}, err
	}
	ps := st.periods(q.Conv, q.User)
	c := st.convs[q.Conv]
	if len(ps) == 0 && s.breaks[BreakReadAnywhere] && c != nil {
		ps = impart.Periods{{From: 1}}
	}
	if len(ps) == 0 {
		return impart.Page{}, notMember(q.Conv)
	}
	head := c.seen(ps)
	page := impart.Page{Conv: q.Conv, Head: head, Floor: min(c.floor, head), Epoch: st.epoch}
	if q.Back {
		if q.Before < 0 || q.Before > head+1 {
			return impart.Page{}, cursorAhead(q.Before, head)
		}
	} else {
		if q.After < 0 || q.After > head {
			return impart.Page{}, cursorAhead(q.After, head)
		}
		if held := c.at(q.After); q.AfterMID != "" && held != nil && held.MID != q.AfterMID && !s.breaks[BreakAfterMID] {
			return impart.Page{}, epochChanged(st, "another event is at seq %d: compare mids, then sync", q.After)
		}
	}
	s.fill(st, c, ps, q, &page)
	return page, nil
}

// fill adds events to the page until it is full.
func (s *Store) fill(st *state, c *conversation, ps impart.Periods, q *store.PageQuery, page *impart.Page) {
	log := c.log
	if q.Back {
		log = slices.Clone(log)
		slices.Reverse(log)
	} else {
		page.Through = page.Head
	}
	size := 0
	for _, ev := range log {
		if outside := ev.Seq <= q.After; q.Back {
			if ev.Seq >= q.Before {
				continue
			}
		} else if outside {
			continue
		}
		if !s.sees(st, c, ps, ev) {
			continue
		}
		size += store.Size(ev)
		if len(page.Events) == q.Limit || (len(page.Events) > 0 && size > q.MaxBytes && !s.breaks[BreakPageBytes]) {
			page.More = true
			break
		}
		page.Events = append(page.Events, copyOf(ev))
	}
	if page.More && !q.Back && !s.breaks[BreakThrough] {
		page.Through = page.Events[len(page.Events)-1].Seq
	}
}

// sees reports whether an event is on a page for whoever has these periods.
func (s *Store) sees(st *state, c *conversation, ps impart.Periods, ev *impart.Event) bool {
	switch {
	case st.hidden[ev]:
		return false
	case s.breaks[BreakReadYourWrites] && ev.Seq == c.head && !c.reread:
		c.reread = true
		return false
	case s.breaks[BreakMembershipPage]:
		return true
	case s.breaks[BreakRecallVisibility]:
		return ps.Covers(ev.Seq)
	case s.breaks[BreakLastLeave] && ev.Kind == impart.KindLeave && slices.ContainsFunc(ps, func(p impart.Period) bool { return p.To == ev.Seq }):
		return false
	}
	return ps.Sees(ev)
}

// Range implements [store.Log].
func (s *Store) Range(ctx context.Context, conv impart.ConvID, from, through impart.Seq, limit int) (r store.Range, err error) {
	failed := s.read(ctx, func(st *state) {
		c := st.convs[conv]
		if c == nil && s.breaks[BreakNotFound] {
			return
		}
		if c == nil {
			err = notFound(conv)
			return
		}
		r = store.Range{Head: c.head, Members: c.version, Epoch: st.epoch}
		for _, ev := range c.log {
			if ev.Seq < from || ev.Seq > through || st.hidden[ev] {
				continue
			}
			if len(r.Events) == limit {
				r.More = true
				return
			}
			r.Events = append(r.Events, copyOf(ev))
		}
	})
	if failed != nil {
		return store.Range{}, failed
	}
	return r, err
}

func notFound(conv impart.ConvID) error {
	return impart.Errorf(impart.NotFound, "there is no conversation %q", conv)
}

// Written implements [store.Log].
func (s *Store) Written(ctx context.Context, since impart.Millis, limit int) (w store.Written, err error) {
	now := s.now()
	err = s.read(ctx, func(st *state) {
		w = store.Written{Now: now, Epoch: st.epoch}
		if since == 0 {
			return
		}
		for _, id := range sortedKeys(st.convs) {
			c := st.convs[id]
			if c.head == 0 || c.written < since || (c.written == since && s.breaks[BreakWrittenSince]) {
				continue
			}
			w.Heads = append(w.Heads, store.Head{Conv: id, Head: c.head, Members: c.version, At: c.written})
		}
		slices.SortStableFunc(w.Heads, func(a, b store.Head) int { return int(a.At - b.At) })
		if len(w.Heads) > limit {
			w.Heads, w.More = w.Heads[:limit], true
		}
	})
	return w, err
}
