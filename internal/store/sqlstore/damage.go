package sqlstore

import (
	"fmt"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
)

// damage is a conversation whose row stands against its own log: the next seq is taken,
// is none at all, or does not follow the last event, so that what is sent would leave a
// hole (D7).
type damage struct {
	conv   impart.ConvID
	next   impart.Seq
	newest impart.Seq // of its events, or what retention has removed
}

func (d *damage) Error() string {
	what := fmt.Sprintf("its log ends at seq %d", d.newest)
	if d.newest >= d.next {
		what = fmt.Sprintf("its log has an event at seq %d (unique violation on events)", d.newest)
	}
	return fmt.Sprintf("conversations.next_seq of %q is %d, and %s: somebody changed the row by hand,"+
		" or restored one table without the other; set next_seq to %d", string(d.conv), d.next, what, d.newest+1)
}

const (
	// damageRetry is what a caller is told to wait, and damageTold how often the log
	// says it of a conversation, at most.
	damageRetry = 5 * time.Second
	damageTold  = time.Minute
)

// tellDamagedRow logs it, not each time.
func (s *Store) tellDamagedRow(conv impart.ConvID, why error) {
	if s.rowLog.next(conv) {
		s.opts.Log.Error("a conversation is damaged: its messages are refused", "conv", string(conv), "error", why)
	}
}

// damagedError is the answer to who sends to it.
func damagedError(what fmt.Stringer, why error) error {
	err := impart.Errorf(impart.Unavailable, "%s is damaged in the database and takes no messages until an operator has mended it", what)
	err.RetryAfter, err.Cause = damageRetry, why
	return err
}

// inRange reports whether the next seq is one.
func (c *convState) inRange() bool { return c.next >= 1 && c.next <= impart.MaxNumber }

// examine looks whether the log ends where the row says, unless that is known, and notes
// and tells it if not.
func (tx *txn) examine(c *convState) (err error) {
	if c.whole || fault.Planted(fault.SeqHole) {
		return nil
	}
	if c.damage == nil {
		if c.inRange() {
			if c.whole, err = endsAt(tx, c); c.whole || err != nil {
				return err
			}
		}
		found := &damage{c.id, c.next, c.floor}
		err = tx.query("SELECT max(seq) FROM events WHERE conv_id = ?", func(r row) error {
			found.newest = max(found.newest, r.seq(0))
			return nil
		}, c.id)
		if err != nil {
			return err
		}
		c.damage = found
	}
	tx.s.tellDamagedRow(c.id, c.damage)
	return nil
}

// endsAt reports whether the event before the next seq is there, or was removed with all
// before it.
func endsAt(s session, c *convState) (whole bool, err error) {
	if c.last() == c.floor {
		return true, nil
	}
	err = s.query("SELECT 1 FROM events WHERE conv_id = ? AND seq = ?", func(row) error {
		whole = true
		return nil
	}, c.id, c.last())
	return whole, err
}

// Where other nodes write too, a row is read anew in each transaction, and a look at the
// log for each would cost. It is spared where a writer finds the row as it left it.

// tail is where a writer left a conversation's log.
type tail struct {
	next   impart.Seq
	shared bool // another writer appends too: the log is looked at with the row
}

// tails are those of a writer; they outlive a transaction.
type tails = cache[impart.ConvID, tail]

func newTails() tails { return newCache[impart.ConvID, tail](cachedConvs) }

// unsure are those of convs whose log is to be looked at in the round trip that reads
// their rows: the writer has not met them, or does not append alone.
func (tx *txn) unsure(convs []impart.ConvID) (out []impart.ConvID) {
	for _, conv := range convs {
		if t, known := tx.tails.get(conv); !known || t.shared {
			out = append(out, conv)
		}
	}
	return out
}

// checkTails notes which of the conversations that were locked are whole. look asks which
// are torn, and is for those whose row is not as the writer left it.
func (tx *txn) checkTails(locked []impart.ConvID, look func(moved []impart.ConvID) error) error {
	var moved []impart.ConvID
	for _, conv := range locked {
		c, _ := tx.convs.get(conv)
		if c == nil {
			continue
		}
		t, known := tx.tails.get(conv)
		switch {
		case !known:
		case t.next == c.next:
			if t.shared {
				tx.tails.put(conv, tail{next: t.next})
			}
		case !t.shared:
			moved = append(moved, conv)
			tx.tails.put(conv, tail{t.next, true})
		}
	}
	if len(moved) > 0 {
		if err := look(moved); err != nil {
			return err
		}
	}
	for _, conv := range locked {
		if c, _ := tx.convs.get(conv); c != nil {
			if c.whole = c.inRange() && !c.torn; !c.whole {
				tx.tails.drop(conv)
			}
		}
	}
	return nil
}

// takeTorn is of a row of conv_id: a conversation whose log does not end where it should.
func (tx *txn) takeTorn(r row) error {
	if c, _ := tx.convs.get(impart.ConvID(r.str(0))); c != nil {
		c.torn = true
	}
	return nil
}

// leaveTails notes where a plan leaves the logs. Should its transaction fail, the next one
// finds the rows otherwise, and looks.
func (tx *txn) leaveTails(p *plan) {
	for _, c := range p.convs {
		t, _ := tx.tails.get(c.id)
		tx.tails.put(c.id, tail{c.next, t.shared})
	}
}
