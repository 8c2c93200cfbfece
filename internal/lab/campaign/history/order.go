package history

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/impart-im/impart"
)

// step is one operation on a log: it takes the next place, or it looks how far
// the log goes.
type step struct {
	what string
	seq  impart.Seq
	look bool
}

// logModel is a log as a sequential program has it: its state is how long it is.
func logModel(length impart.Seq) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return length },
		Step: func(state, input, _ any) (bool, any) {
			n, s := state.(impart.Seq), input.(step)
			if s.look {
				return s.seq == n, n
			}
			return s.seq == n+1, s.seq
		},
	}
}

// orderTime bounds the search for an order; one that has not ended by then is a
// finding too, for nothing was shown.
const orderTime = 20 * time.Second

// judgeOrder: each log could have come about by one operation after the other,
// each of them at some moment between its call and its answer.
func (t *Tape) judgeOrder() {
	for i, e := range t.eras {
		for _, c := range t.Convs {
			ops := t.operations(e, c.ID)
			result := porcupine.CheckOperationsTimeout(logModel(e.before[c.ID]), ops, orderTime)
			if result != porcupine.Ok {
				t.fault("D1/D7/D14", "the log of %s in era %d has no order that fits what was asked and answered when (%s, %d operations)", c.ID, i+1, result, len(ops))
			}
		}
	}
}

// operations are what made the log of a conversation in an era, and who looked at it.
func (t *Tape) operations(e *era, conv impart.ConvID) []porcupine.Operation {
	var ops []porcupine.Operation
	add := func(s step, from, to Moment) {
		from = max(from, e.from)
		if to == 0 || to > e.to {
			to = e.to
		}
		ops = append(ops, porcupine.Operation{ClientId: len(ops), Input: s, Call: int64(from), Return: int64(max(to, from+1))})
	}
	log := e.logs[conv]
	for i := int(e.before[conv]); i < len(log); i++ {
		ev := &log[i]
		if ev.Kind == impart.KindJoin || ev.Kind == impart.KindLeave {
			from, to := t.asked(e, string(ev.Kind), conv, ev.User)
			add(step{what: string(ev.Kind), seq: ev.Seq}, from, to)
			continue
		}
		from, to := Moment(0), Moment(0)
		if w := t.items[key{ev.Sender, ev.CMID}]; w != nil {
			from = w.called
			for _, a := range w.answers {
				if a.mid == ev.MID && (to == 0 || a.at < to) {
					to = a.at
				}
			}
		}
		add(step{what: string(ev.CMID), seq: ev.Seq}, from, to)
	}
	for _, c := range t.calls {
		if c.what == "look" && c.conv == conv && c.called > e.from && c.ended < e.to {
			add(step{what: "look", seq: c.head, look: true}, c.called, c.ended)
		}
	}
	return ops
}

// asked is from when to when a change of membership may have taken place: any of
// those that were asked for may be the one.
func (t *Tape) asked(e *era, what string, conv impart.ConvID, user impart.UserID) (from, to Moment) {
	from = math.MaxInt64
	for _, c := range t.calls {
		if c.what != what || c.conv != conv || c.user != user || c.called > e.to {
			continue
		}
		from = min(from, c.called)
		if to = max(to, c.ended); !c.ok {
			to = e.to
		}
	}
	if from == math.MaxInt64 {
		from = 0
	}
	return from, to
}
