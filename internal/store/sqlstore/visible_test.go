package sqlstore

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/impart-im/impart"
)

// log is a conversation in the plainest form, to check the clever ones against.
type plainLog struct {
	events []impart.Event // from floor+1 on
	floor  impart.Seq
	ps     impart.Periods
}

// drawLog makes a log with many recalls, and memberships that come and go.
func drawLog(rt *rapid.T) plainLog {
	last := impart.Seq(rapid.IntRange(0, 30).Draw(rt, "last"))
	l := plainLog{floor: impart.Seq(rapid.IntRange(0, int(last)).Draw(rt, "floor"))}
	for seq := l.floor + 1; seq <= last; seq++ {
		ev := impart.Event{Seq: seq, Kind: impart.KindMsg}
		if seq > 1 && rapid.IntRange(0, 2).Draw(rt, "recall") == 0 {
			ev.Kind, ev.Target = impart.KindRecall, impart.Seq(rapid.IntRange(1, int(seq)-1).Draw(rt, "target"))
		}
		l.events = append(l.events, ev)
	}
	at := impart.Seq(0)
	for range rapid.IntRange(1, 3).Draw(rt, "periods") {
		from := at + 1 + impart.Seq(rapid.IntRange(0, 6).Draw(rt, "from"))
		to := from + impart.Seq(rapid.IntRange(0, 10).Draw(rt, "to"))
		if from > last && len(l.ps) > 0 {
			break
		}
		if to >= last {
			to = 0
		}
		l.ps = append(l.ps, impart.Period{From: from, To: to})
		if at = to; to == 0 {
			break
		}
	}
	return l
}

func (l *plainLog) last() impart.Seq { return l.floor + impart.Seq(len(l.events)) }

func (l *plainLog) recalls() (out []recallMark) {
	for _, ev := range slices.Backward(l.events) {
		if ev.Kind == impart.KindRecall {
			out = append(out, recallMark{ev.Seq, ev.Target})
		}
	}
	return out
}

func (l *plainLog) visible() (out []impart.Seq) {
	for i := range l.events {
		if l.ps.Sees(&l.events[i]) {
			out = append(out, l.events[i].Seq)
		}
	}
	return out
}

// head is the contract's: the last visible event, or what is covered up to floor.
func (l *plainLog) head() impart.Seq {
	if seen := l.visible(); len(seen) > 0 {
		return seen[len(seen)-1]
	}
	for seq := min(l.floor, l.last()); seq > 0; seq-- {
		if l.ps.Covers(seq) {
			return seq
		}
	}
	return 0
}

func (l *plainLog) walk() impart.Seq {
	w := newHeadWalk(l.ps, l.last())
	for _, r := range l.recalls() {
		if w.see(r) {
			break
		}
	}
	return w.at
}

func TestHeadIsTheLastVisibleEvent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := drawLog(rt)
		if got, want := l.walk(), l.head(); got != want {
			rt.Fatalf("head is %d, want %d: periods %v, floor %d, last %d, recalls %v", got, want, l.ps, l.floor, l.last(), l.recalls())
		}
	})
}

func TestStartLeavesThatManyVisible(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := drawLog(rt)
		want := rapid.Int64Range(0, 35).Draw(rt, "history")
		start := startNear(l.ps, want, l.walk(), l.floor, l.recalls())
		seen := l.visible()
		after := int64(0)
		for _, seq := range seen {
			if seq > start {
				after++
			}
		}
		if after != min(want, int64(len(seen))) {
			rt.Fatalf("start %d leaves %d of %v, want %d: periods %v, floor %d, recalls %v", start, after, seen, want, l.ps, l.floor, l.recalls())
		}
		if int64(len(seen)) < want && start != l.ps.First()-1 {
			rt.Fatalf("all there is was asked for, and start is %d", start)
		}
	})
}

func TestStretchesCoverEverySeqOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := drawLog(rt)
		from := impart.Seq(rapid.IntRange(1, 40).Draw(rt, "from"))
		to := impart.Seq(rapid.IntRange(0, 40).Draw(rt, "to"))
		next := from
		for _, s := range stretches(l.ps, from, to) {
			if s.from != next || s.to < s.from {
				rt.Fatalf("%+v where %d should follow", s, next)
			}
			for seq := s.from; seq <= s.to; seq++ {
				if l.ps.Covers(seq) != s.covered {
					rt.Fatalf("%d lies in %+v; periods %v", seq, s, l.ps)
				}
			}
			next = s.to + 1
		}
		if next != max(to+1, from) {
			rt.Fatalf("the stretches of %d..%d end before %d", from, to, next)
		}
	})
}

func TestCoveredUpTo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := drawLog(rt)
		limit := impart.Seq(rapid.IntRange(-1, 40).Draw(rt, "limit"))
		want := max(limit, 0)
		for want > 0 && !l.ps.Covers(want) {
			want--
		}
		if got := coveredUpTo(l.ps, limit); got != want {
			rt.Fatalf("up to %d: %d, want %d; periods %v", limit, got, want, l.ps)
		}
	})
}
