package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/store"
)

// Page implements [store.Log].
func (s *Store) Page(ctx context.Context, q store.PageQuery) (impart.Page, error) {
	var page impart.Page
	err := s.read(ctx, func(c session) error {
		var err error
		page, err = readPage(c, &q)
		return err
	})
	if err != nil {
		return impart.Page{}, err
	}
	return page, nil
}

// view is a conversation as one user sees it.
type view struct {
	place
	conv *convState
}

const selectView = "SELECT m.epoch, c.conv_id, c.kind, c.history, c.next_seq, c.floor, c.members_version, p.from_seq, p.to_seq FROM meta m" +
	" LEFT JOIN conversations c ON c.conv_id = ? LEFT JOIN members p ON p.conv_id = c.conv_id AND p.user_id = ?"

// readView reads it; without periods the user sees nothing.
func readView(s session, conv impart.ConvID, user impart.UserID) (*view, error) {
	v, err := readPlace(s, conv, user)
	if err != nil {
		return v, err
	}
	return v, v.findHead(s)
}

// readPlace is readView without the head.
func readPlace(s session, conv impart.ConvID, user impart.UserID) (*view, error) {
	v := &view{}
	err := s.query(selectView, func(r row) error {
		v.epoch = impart.Epoch(r.num(0))
		if !r.null(1) && v.conv == nil {
			v.conv = scanConv(r[1:7])
		}
		if !r.null(7) {
			v.periods = append(v.periods, impart.Period{From: r.seq(7), To: r.seq(8)})
		}
		return nil
	}, conv, user)
	// Mostly there is one; the database would make a temporary table to sort it.
	slices.SortFunc(v.periods, func(a, b impart.Period) int { return cmp.Compare(a.From, b.From) })
	return v, err
}

func (v *view) findHead(s session) (err error) {
	if len(v.periods) == 0 {
		return nil
	}
	v.head, err = readHead(s, v.conv, v.periods)
	v.floor = min(v.conv.floor, v.head)
	return err
}

func (v *view) seenBy() (*convState, impart.Periods) { return v.conv, v.periods }

func readPage(s session, q *store.PageQuery) (page impart.Page, err error) {
	v, err := readView(s, q.Conv, q.User)
	if err != nil {
		return page, err
	}
	if err := checkEpoch(q.Epoch, v.epoch); err != nil {
		return page, err
	}
	if len(v.periods) == 0 {
		return page, notMember(q.Conv)
	}
	page = impart.Page{Conv: q.Conv, Head: v.head, Floor: v.floor, Epoch: v.epoch}
	if fault.Planted(fault.SeesAllSync) {
		v.periods = impart.Periods{{From: 1}}
	}
	fill := filler{q: q, page: &page, periods: v.periods}
	if q.Back {
		if q.Before < 0 || q.Before > v.head+1 {
			return page, cursorAhead(q.Before, v.head)
		}
		return page, fill.back(s, v)
	}
	if q.After < 0 || q.After > v.head {
		return page, cursorAhead(q.After, v.head)
	}
	if err := checkHeld(s, v, q); err != nil {
		return page, err
	}
	if err := fill.forward(s, v); err != nil {
		return page, err
	}
	page.Through = v.head
	if page.More && !fault.Planted(fault.ThroughSkipsVisible) {
		page.Through = page.Events[len(page.Events)-1].Seq
	}
	return page, nil
}

// checkHeld compares the mid that the client holds with the one that is here.
// What is removed or not for this user to see cannot be compared.
func checkHeld(s session, v *view, q *store.PageQuery) error {
	if q.AfterMID == "" || q.After <= v.conv.floor {
		return nil
	}
	ev, err := readEvent(s, q.Conv, q.After)
	if err != nil || ev == nil || !v.periods.Sees(ev) || ev.MID == q.AfterMID {
		return err
	}
	return epochChanged(v.epoch, "another event is at seq %d: compare mids, then sync", q.After)
}

// filler fills a page with visible events until it is full.
type filler struct {
	q       *store.PageQuery
	page    *impart.Page
	periods impart.Periods
	size    int
}

// add takes one more event, or says that the page was full without it.
func (f *filler) add(ev impart.Event) error {
	if !f.periods.Sees(&ev) {
		return nil
	}
	if err := undamaged(&ev); err != nil {
		return err
	}
	f.size += store.Size(&ev)
	n := len(f.page.Events)
	if n == f.q.Limit || (n > 0 && f.size > f.q.MaxBytes) {
		f.page.More = true
		return errEnough
	}
	if n == 0 {
		f.page.Events = make([]impart.Event, 0, min(f.q.Limit, 64))
	}
	f.page.Events = append(f.page.Events, ev)
	return nil
}

func (f *filler) forward(s session, v *view) error {
	for _, st := range stretches(v.periods, max(f.q.After, v.conv.floor)+1, v.conv.last()) {
		if f.page.More {
			break
		}
		if err := f.run(s, st, selectForward, selectRecallsForward); err != nil {
			return err
		}
	}
	return nil
}

func (f *filler) back(s session, v *view) error {
	for _, st := range slices.Backward(stretches(v.periods, v.conv.floor+1, min(f.q.Before-1, v.conv.last()))) {
		if f.page.More {
			break
		}
		if err := f.run(s, st, selectBack, selectRecallsBack); err != nil {
			return err
		}
	}
	return nil
}

const (
	selectRange          = "SELECT " + eventColumns + " FROM events WHERE conv_id = ? AND seq BETWEEN ? AND ?"
	selectForward        = selectRange + " ORDER BY seq LIMIT ?"
	selectBack           = selectRange + " ORDER BY seq DESC LIMIT ?"
	selectRecalls        = selectRange + " AND kind = 'recall' AND target BETWEEN ? AND ?"
	selectRecallsForward = selectRecalls + " ORDER BY seq LIMIT ?"
	selectRecallsBack    = selectRecalls + " ORDER BY seq DESC LIMIT ?"
)

// eventsAtOnce is how many events are read before it is clear that more of them fit:
// a database sends all that it is asked for, and a body may have 64 KB.
const eventsAtOnce = 128

// run reads one stretch: all of it, or only recalls of what the user may see. It
// reads as many at a time as will fill the page if they are as large as those before.
func (f *filler) run(s session, st stretch, all, recalls string) error {
	conv := f.q.Conv
	for st.from <= st.to && !f.page.More {
		n, limit := 0, f.chunk()
		each := func(r row) error {
			n++
			ev := scanEvent(r, conv)
			if f.q.Back {
				st.to = ev.Seq - 1
			} else {
				st.from = ev.Seq + 1
			}
			return f.add(ev)
		}
		var err error
		if st.covered {
			err = s.query(all, each, conv, st.from, st.to, limit)
		} else {
			err = s.query(recalls, each, conv, st.from, st.to, f.periods.First(), coveredUpTo(f.periods, st.to), limit)
		}
		if err != nil || n < limit {
			return err
		}
	}
	return nil
}

// chunk is how many events to read: those that are still wanted, and the one that
// tells that there are more.
func (f *filler) chunk() int {
	n := len(f.page.Events)
	wanted := f.q.Limit - n + 1
	if n == 0 {
		return min(wanted, eventsAtOnce)
	}
	each := max(f.size/n, 1)
	return min(wanted, max((f.q.MaxBytes-f.size)/each+2, 2))
}

// Range implements [store.Log].
func (s *Store) Range(ctx context.Context, conv impart.ConvID, from, through impart.Seq, limit int) (store.Range, error) {
	var out store.Range
	err := s.read(ctx, func(c session) error {
		meta, err := readMeta(c)
		if err != nil {
			return err
		}
		state, err := readConv(c, conv)
		if err != nil {
			return err
		}
		if state == nil {
			return noConversation(conv)
		}
		out = store.Range{Head: state.last(), Members: state.version, Epoch: meta.epoch}
		return c.query(selectForward, func(r row) error {
			if len(out.Events) == limit {
				out.More = true
				return errEnough
			}
			ev := scanEvent(r, conv)
			if err := undamaged(&ev); err != nil {
				return err
			}
			out.Events = append(out.Events, ev)
			return nil
		}, conv, from, through, limit+1)
	})
	if err != nil {
		return store.Range{}, err
	}
	return out, nil
}

// Written implements [store.Log]. A page is longer than limit where that many
// conversations were written in the millisecond since: otherwise the caller, who
// goes on from the last one's time, would get the same page for ever.
func (s *Store) Written(ctx context.Context, since impart.Millis, limit int) (store.Written, error) {
	if err := s.enter(); err != nil {
		return store.Written{}, err
	}
	now, since, err := s.engine.window(ctx, since)
	s.reading.Done()
	if err != nil {
		return store.Written{}, err
	}
	var out store.Written
	err = s.read(ctx, func(c session) error {
		out = store.Written{Now: now}
		meta, err := readMeta(c)
		if err != nil {
			return err
		}
		out.Epoch = meta.epoch
		if since == 0 {
			return nil
		}
		for rows := limit + 1; ; rows *= 2 {
			n := 0
			out.Heads, out.More = nil, false
			err := c.query(s.sql.written, func(r row) error {
				n++
				h := store.Head{Conv: impart.ConvID(r.str(0)), Head: r.seq(1) - 1, Members: r.num(2), At: impart.Millis(r.num(3))}
				if n := len(out.Heads); n >= limit && out.Heads[n-1].At > since {
					out.More = true
					return errEnough
				}
				out.Heads = append(out.Heads, h)
				return nil
			}, max(since, 1), rows)
			if err != nil || out.More || n < rows {
				return err
			}
		}
	})
	if err != nil {
		return store.Written{}, err
	}
	return out, nil
}
