package sqlstore

import (
	"strings"
	"sync"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// haltedPause is how long a halted store waits at least before it looks again
// whether somebody has judged.
const haltedPause = 250 * time.Millisecond

// history is what a database says of its own past.
type history struct {
	incarnation string
	judged      int64 // rises with each incarnation that is accepted
	epoch       impart.Epoch
}

// identity is what a store knows of the database that others could replace behind
// its back: by a standby, by a backup, by an old primary that comes back. Nothing is
// written to one that is another than was accepted (D18).
//
// An incarnation is named "system/timeline" after what the server says of itself,
// with "/place" after it where a backup was put back that kept both. What was
// accepted stands in the row of meta, with a number that rises: a node that finds a
// higher number there learns that another node has judged.
type identity struct {
	mu      sync.Mutex // guards what follows
	has     history
	durable int64 // a place in the log that is on the disk, with a commit after it that was acknowledged
	adopted int64 // rises when has becomes another
	halted  bool
	met     history // what was met instead; its incarnation as accepting it would name it
	tried   time.Time
}

// physical is the part of an incarnation's name that the server gives.
func physical(incarnation string) string {
	parts := strings.SplitN(incarnation, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// accepted is what was known when somebody went to look.
type accepted struct {
	history
	durable, adopted int64
}

// before is what is known now. It is taken before a server is asked: what others
// find out meanwhile says nothing against an answer that is older.
func (d *identity) before() accepted {
	d.mu.Lock()
	defer d.mu.Unlock()
	return accepted{d.has, d.durable, d.adopted}
}

// meet judges a new connection by the server's own name, where its log ends, and
// its row of meta. It returns UNAVAILABLE for a server that nobody has accepted.
func (d *identity) meet(was accepted, server string, end int64, row history) (adopted int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if adopted, ok := d.fits(was, server, row); ok && (adopted != was.adopted || end >= was.durable && row.epoch >= was.epoch) {
		d.halted = false
		return adopted, nil
	}
	d.halted, d.met = true, row
	d.met.incarnation = server
	if server == physical(d.has.incarnation) {
		d.met.incarnation = server + "/" + time.Now().UTC().Format("20060102T150405.000")
	}
	return 0, d.refusal()
}

// still judges a transaction by the row of meta that it read on a connection that
// was met before.
func (d *identity) still(was accepted, server string, row history) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.fits(was, server, row); !ok {
		d.halted, d.met = true, row
		d.met.incarnation = server
		return d.refusal()
	}
	return nil
}

// fits reports whether the row is the accepted one, or one that another node has
// accepted since, which counts from now on.
func (d *identity) fits(was accepted, server string, row history) (adopted int64, ok bool) {
	switch {
	case physical(row.incarnation) != server:
		return 0, false
	case row.judged == was.judged && row.incarnation == was.incarnation:
		return was.adopted, true
	case row.judged > d.has.judged:
		d.has, d.durable = row, 0
		d.adopted++
		return d.adopted, true
	case row.judged == d.has.judged && row.incarnation == d.has.incarnation:
		return d.adopted, true
	}
	return 0, false
}

// open is the first meeting: what stands in the row is taken for what was accepted.
func (d *identity) open(row history) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.has = row
	d.adopted++
}

// acknowledged notes how far the log had come before a commit that succeeded.
func (d *identity) acknowledged(place int64, epoch impart.Epoch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.durable, d.has.epoch = max(d.durable, place), max(d.has.epoch, epoch)
}

// current reports whether a connection was checked against what is accepted now.
func (d *identity) current(adopted int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return adopted == d.adopted
}

// mayTry is nil when a write may look for a connection: always, but seldom while
// the store is halted.
func (d *identity) mayTry(now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.halted && now.Sub(d.tried) < haltedPause {
		return d.refusal()
	}
	d.tried = now
	return nil
}

// is reports a halt.
func (d *identity) is() (was, now store.Meta, halted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.halted {
		return store.Meta{}, store.Meta{}, false
	}
	return store.Meta{Epoch: d.has.epoch, Incarnation: d.has.incarnation}, store.Meta{Epoch: d.met.epoch, Incarnation: d.met.incarnation}, true
}

func (d *identity) refusal() error {
	return impart.Errorf(impart.Unavailable, "the database's history is %s and was %s: nothing is written until that has been judged",
		d.met.incarnation, d.has.incarnation)
}

// accept is the row after the incarnation that was met has been judged.
func (d *identity) accept(server string, row history, keepEpoch bool, now impart.Millis) (history, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if physical(row.incarnation) == server && row.judged > d.has.judged {
		return row, false // somebody was first
	}
	if !d.halted {
		return row, false
	}
	out := history{incarnation: d.met.incarnation, judged: max(row.judged+1, d.has.judged+1, int64(now)), epoch: row.epoch}
	if physical(out.incarnation) != server {
		out.incarnation = server
	}
	if !keepEpoch || d.has.epoch > row.epoch {
		out.epoch = max(row.epoch+1, d.has.epoch+1, impart.Epoch(now))
	}
	return out, true
}
