package sqlstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// history is what a database says of its own past.
type history struct {
	incarnation string
	judged      int64 // rises with each incarnation that is accepted
	epoch       impart.Epoch
	store       string // drawn when the store was made; "" where databases have none
}

// identity is what a store knows of the database that others could replace behind
// its back: by a standby, by a backup, by an old primary that comes back. Nothing is
// written to one that is another than was accepted (D18).
//
// An incarnation is named "system/timeline" after what the server says of itself
// (the timeline is 0 where servers have none; after it may stand the place of the
// store in the server), with the number of the judgement after it where a backup was put back that kept
// both. What was accepted stands in the row of meta, with that number, which rises:
// a node that finds a higher one there learns that another node has judged.
type identity struct {
	mu      sync.Mutex // guards what follows
	has     history
	durable int64 // a place in the log that is on the disk, with a commit after it that was acknowledged
	adopted int64 // rises when has becomes another
	newest  int64 // the highest timeline of this system that was met
	halt    *store.Halt
	life    context.Context // of what is under way in what was accepted: it ends with a halt
	end     context.CancelFunc
}

// physical is the part of an incarnation's name that the server gives.
func physical(incarnation string) string {
	parts := strings.SplitN(incarnation, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// timelineOf takes a server's name apart.
func timelineOf(server string) (system string, timeline int64) {
	system, line, _ := strings.Cut(server, "/")
	line, _, _ = strings.Cut(line, ".")
	timeline, _ = strconv.ParseInt(line, 16, 64)
	return system, timeline
}

// changeOf names a change that nobody has judged: on every node alike.
func changeOf(server string, row history) string { return fmt.Sprintf("%s#%d", server, row.judged) }

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

// meet compares a server's own name, where its log ends, and its row of meta with
// what was accepted. It returns UNAVAILABLE for anything else, and halts.
func (d *identity) meet(was accepted, server string, end int64, row history) (adopted int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	halt, err := d.compare(was, server, end, row)
	if halt != nil {
		d.set(halt)
	} else if err != nil {
		return 0, err
	}
	if d.halt != nil {
		return 0, haltedError(d.halt)
	}
	return d.adopted, nil
}

// look is meet for who asks whether a halt is over: it is when what was accepted is
// there again, and nothing newer was met.
func (d *identity) look(was accepted, server string, end int64, row history) (*store.Halt, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	halt, err := d.compare(was, server, end, row)
	if halt != nil || err == nil {
		d.set(halt)
		return halt, nil
	}
	return d.halt, err
}

// still is meet for a transaction on a connection that was met before: another node
// may have judged since, or a pooler have put another server behind it.
func (d *identity) still(was accepted, server string, end int64, row history) error {
	_, err := d.meet(was, server, end, row)
	return err
}

// compare is nil for what was accepted, and else a reason to halt. It is an error
// where an answer is older than what is known by now, and for a server that is an
// older primary: the newer one may be back at any moment.
func (d *identity) compare(was accepted, server string, end int64, row history) (*store.Halt, error) {
	if err := d.outdated(server, row); err != nil {
		return nil, err
	}
	system, timeline := timelineOf(server)
	if own, _ := timelineOf(d.has.incarnation); system == own {
		d.newest = timeline
	}
	mine := physical(row.incarnation) == server
	same := mine && row.judged == d.has.judged && row.incarnation == d.has.incarnation
	if was.adopted != d.adopted && !same {
		return nil, errAgain
	}
	behind := was.adopted == d.adopted && (end < was.durable || row.epoch < was.epoch)
	if same && !behind {
		return nil, nil
	}
	halt := &store.Halt{
		Was:    store.Meta{Epoch: d.has.epoch, Incarnation: d.has.incarnation},
		Now:    store.Meta{Epoch: row.epoch, Incarnation: server},
		Change: changeOf(server, row), Judged: mine && row.judged > d.has.judged, Behind: behind,
	}
	if d.halt != nil && d.halt.Change == halt.Change {
		halt.Behind = halt.Behind || d.halt.Behind // its log grows
	}
	return halt, nil
}

// older is an error for a server that is an older primary.
func (d *identity) older(server string, row history) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.outdated(server, row)
}

// outdated is older, under mu. Timelines tell by themselves which of two servers is the
// newer one. Where a server's name tells nothing, it is an older one if another was
// accepted since it was itself, or was met since and waits for its judgement.
func (d *identity) outdated(server string, row history) error {
	if row.store != d.has.store {
		return impart.Errorf(impart.Unavailable, "the database holds another store than this process began with: nothing is read or written until that one is back, or the process starts anew")
	}
	system, timeline := timelineOf(server)
	switch own, _ := timelineOf(d.has.incarnation); {
	case system == own && timeline < d.newest:
		return impart.Errorf(impart.Unavailable,
			"the server is on timeline %d, and timeline %d of it was met: an older primary is not gone back to", timeline, d.newest)
	case system != own && physical(row.incarnation) == server && row.judged < d.has.judged:
		return impart.Errorf(impart.Unavailable, "the server is %s, and %s was accepted since: an older primary is not gone back to", server, d.has.incarnation)
	case system == own && d.halt != nil && !strings.HasPrefix(d.halt.Now.Incarnation, own+"/"):
		return impart.Errorf(impart.Unavailable, "the server is %s, and %s was met since: an older primary is not gone back to", server, d.halt.Now.Incarnation)
	}
	return nil
}

// isOn reports whether a server is the one that was accepted.
func (d *identity) isOn(server string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return physical(d.has.incarnation) == server
}

// open is the first meeting: what stands in the row is taken for what was accepted.
func (d *identity) open(row history) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.life, d.end = context.WithCancel(context.Background())
	_, d.newest = timelineOf(physical(row.incarnation))
	d.has = row
	d.adopted++
}

// adopt goes on with what was judged.
func (d *identity) adopt(row history) {
	d.mu.Lock()
	defer d.mu.Unlock()
	system, timeline := timelineOf(physical(row.incarnation))
	if own, _ := timelineOf(d.has.incarnation); system != own || timeline > d.newest {
		d.newest = timeline
	}
	d.has, d.durable = row, 0
	d.adopted++
	d.set(nil)
}

// acknowledged notes how far the log had come before a commit that succeeded.
func (d *identity) acknowledged(was accepted, place int64, epoch impart.Epoch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if was.adopted == d.adopted {
		d.durable, d.has.epoch = max(d.durable, place), max(d.has.epoch, epoch)
	}
}

// vouch is nil for the server that is the accepted one, or that waits for its judgement,
// whoever asks it on whatever connection.
func (d *identity) vouch(server string, row history) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.outdated(server, row); err != nil {
		return err
	}
	at := physical(d.has.incarnation)
	if d.halt != nil {
		at = d.halt.Now.Incarnation
	}
	if server != at {
		return impart.Errorf(impart.Unavailable, "the server is %s, and the store is at %s", server, at)
	}
	return nil
}

// current reports whether a connection was checked against what is accepted now.
func (d *identity) current(adopted int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return adopted == d.adopted
}

// set begins a halt or ends it. What is under way when it begins may wait for a server
// that answers no more, and hold up others long after the judgement: it is broken off.
func (d *identity) set(halt *store.Halt) {
	if halt != nil {
		d.end()
	} else if d.life.Err() != nil {
		d.life, d.end = context.WithCancel(context.Background())
	}
	d.halt = halt
}

// lifetime ends with the next halt.
func (d *identity) lifetime() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.life
}

// within is ctx, which also ends with the next halt.
func (d *identity) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(d.lifetime(), cancel)
	return ctx, func() { stop(); cancel() }
}

// refusal is UNAVAILABLE while the store is halted.
func (d *identity) refusal() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.halt == nil {
		return nil
	}
	return haltedError(d.halt)
}

// halted is the change that waits for its judgement, or nil.
func (d *identity) halted() *store.Halt {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.halt
}

func haltedError(h *store.Halt) error {
	err := impart.Errorf(impart.Unavailable, "the database's history is %s and was %s: nothing is written or read until that has been judged",
		h.Now.Incarnation, h.Was.Incarnation)
	err.RetryAfter = store.HaltedRetry
	return err
}
