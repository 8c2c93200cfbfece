package sqlstore

import (
	"slices"

	"github.com/impart-im/impart"
)

// recallMark is where a recall stands and what it took back.
type recallMark struct{ seq, target impart.Seq }

// headWalk finds a user's head: the highest seq of an event they may see. A
// recall counts by its target, wherever it stands; everything else by its seq;
// what retention removed by its seq alone. The caller shows it the recalls of the
// conversation, newest first, until it has seen enough.
type headWalk struct {
	ps impart.Periods
	at impart.Seq // the highest covered seq that no recall has ruled out
}

func newHeadWalk(ps impart.Periods, last impart.Seq) headWalk {
	return headWalk{ps: ps, at: coveredUpTo(ps, last)}
}

// see looks at the next older recall and reports whether the head is known.
func (w *headWalk) see(r recallMark) (found bool) {
	visible := w.ps.Covers(r.target)
	switch {
	case r.seq < w.at:
		return true
	case visible:
		w.at = r.seq
		return true
	case r.seq == w.at:
		w.at = coveredUpTo(w.ps, w.at-1)
	}
	return false
}

// coveredUpTo is the highest seq up to limit that lies within a period, or 0.
func coveredUpTo(ps impart.Periods, limit impart.Seq) impart.Seq {
	for _, p := range slices.Backward(ps) {
		if p.From > limit {
			continue
		}
		if p.To != 0 && p.To < limit {
			return p.To
		}
		return limit
	}
	return 0
}

// stretch is a run of seqs that a user's periods cover wholly or not at all.
type stretch struct {
	from, to impart.Seq // both included
	covered  bool
}

// stretches cuts from..to, ascending.
func stretches(ps impart.Periods, from, to impart.Seq) []stretch {
	var out []stretch
	for _, p := range ps {
		if p.To != 0 && p.To < from {
			continue
		}
		if from > to || p.From > to {
			break
		}
		if p.From > from {
			out = append(out, stretch{from, p.From - 1, false})
			from = p.From
		}
		end := to
		if p.To != 0 {
			end = min(to, p.To)
		}
		out = append(out, stretch{from, end, true})
		from = end + 1
	}
	if from <= to {
		out = append(out, stretch{from, to, false})
	}
	return out
}

// startNear is the seq after which exactly want visible events lie, or the seq
// before the first one if there are fewer. recalls are those above floor, newest
// first; who sees everything needs none.
func startNear(ps impart.Periods, want int64, head, floor impart.Seq, recalls []recallMark) impart.Seq {
	if want <= 0 {
		return head
	}
	left := impart.Seq(min(want, impart.MaxNumber))
	for _, s := range slices.Backward(stretches(ps, floor+1, head)) {
		at := s.to // counted down to here
		for ; len(recalls) > 0 && recalls[0].seq >= s.from; recalls = recalls[1:] {
			r := recalls[0]
			visible := ps.Covers(r.target)
			switch {
			case r.seq > s.to:
			case !s.covered && visible:
				if left--; left == 0 {
					return r.seq - 1
				}
			case s.covered && !visible:
				if left <= at-r.seq {
					return at - left
				}
				left -= at - r.seq
				at = r.seq - 1
			}
		}
		if s.covered {
			if left <= at-s.from+1 {
				return at - left
			}
			left -= at - s.from + 1
		}
	}
	return ps.First() - 1
}
