package memstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Node is another node's store on the same data. What one of them commits the
// other sees.
func (s *Store) Node() *Store {
	d := s.on()
	d.mu.Lock()
	defer d.mu.Unlock()
	n := attach(Options{Now: s.now, Shared: true}, d)
	maps.Copy(n.breaks, s.breaks)
	return n
}

// Server is one database server, for [Store.Reach].
type Server struct{ disk *disk }

// Server is the one that the store's calls go to.
func (s *Store) Server() Server { return Server{s.on()} }

// Standby is a server with a copy of what has committed by now, as a standby has it
// that follows no further: a commit that comes after this call is one that it lost.
func (s *Store) Standby() Server { return Server{s.on().copied()} }

// Promote makes a standby a primary, on a timeline of its own.
func (v Server) Promote() {
	v.disk.mu.Lock()
	defer v.disk.mu.Unlock()
	v.disk.timeline++
}

// Reach lets the later calls of the store go to a server, as after a failover. A
// commit under way goes there too, if it has not committed yet.
func (s *Store) Reach(v Server) {
	v.disk.mu.Lock()
	defer v.disk.mu.Unlock()
	s.cut.Store(false)
	s.life.Store(v.disk.life)
	s.disk.Store(v.disk)
}

// Cut lets no later call of the store reach any server, until [Store.Reach].
func (s *Store) Cut() { s.cut.Store(true) }

// errCut is no refusal: nothing was decided.
var errCut = errors.New("memstore: no connection")

func (s *Store) on() *disk { return s.disk.Load() }

// name is what a server says of itself.
func (d *disk) name() string {
	if d.timeline == 1 {
		return d.server
	}
	return fmt.Sprintf("%s/%d", d.server, d.timeline)
}

// knowledge is what a store knows of the history that it goes by (D18).
type knowledge struct {
	mu       sync.Mutex // guards what follows
	accepted store.Meta
	judged   int64
	newest   int // the highest timeline met
	halt     *store.Halt
}

// node and verdict are rows.
type node struct {
	store.Seen
	beat int64
}

type verdict struct {
	store.Verdict
	change string
	at     impart.Millis
	judged int64 // the judgement that counted it; 0: none yet
}

// open takes what is there for what was accepted. The caller has the disk.
func (k *knowledge) open(d *disk) {
	k.accepted, k.judged, k.newest = store.Meta{Epoch: d.state.epoch, Incarnation: d.state.incarnation}, d.state.judged, d.timeline
}

// meet refuses a history that was not accepted. The caller has the disk.
func (s *Store) meet(d *disk) error {
	if s.breaks[BreakHalt] {
		return nil
	}
	if s.cut.Load() {
		return errCut
	}
	k := &s.known
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.look(d); err != nil {
		return err
	}
	if k.halt != nil {
		return halted(k.halt)
	}
	return nil
}

// look compares what is there with what was accepted.
func (k *knowledge) look(d *disk) error {
	st := &d.state
	if d.timeline < k.newest {
		return impart.Errorf(impart.Unavailable, "the server is an older primary (timeline %d, %d was met): it is not gone back to", d.timeline, k.newest)
	}
	k.newest = d.timeline
	accepted := st.incarnation == d.name()
	if accepted && st.judged == k.judged && st.incarnation == k.accepted.Incarnation && st.epoch >= k.accepted.Epoch {
		k.accepted.Epoch = st.epoch
		if k.halt != nil && !k.halt.Judged {
			k.halt = nil
		}
		return nil
	}
	k.halt = &store.Halt{
		Was: k.accepted, Now: store.Meta{Epoch: st.epoch, Incarnation: d.name()},
		Change: d.change(),
		Judged: accepted && st.judged > k.judged, Behind: st.epoch < k.accepted.Epoch,
	}
	return nil
}

// saw notes the epoch of a commit. The caller has the disk.
func (s *Store) saw(d *disk) {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	s.known.accepted.Epoch = max(s.known.accepted.Epoch, d.state.epoch)
}

func halted(h *store.Halt) error {
	err := impart.Errorf(impart.Unavailable, "the database's history is %s and was %s: nothing is written or read until that has been judged",
		h.Now.Incarnation, h.Was.Incarnation)
	err.RetryAfter = store.HaltedRetry
	return err
}

// Halted implements [store.Failover].
func (s *Store) Halted() *store.Halt {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	return s.known.halt
}

// Look implements [store.Failover].
func (s *Store) Look(ctx context.Context) (*store.Halt, error) {
	if err := s.reachable(ctx); err != nil {
		return nil, err
	}
	d := s.on()
	d.mu.Lock()
	defer d.mu.Unlock()
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	err := s.known.look(d)
	return s.known.halt, err
}

// Beat implements [store.Failover].
func (s *Store) Beat(ctx context.Context, of store.Node) (beat store.Beat, err error) {
	if !s.shared {
		return store.Beat{Alone: true}, nil
	}
	err = s.write(ctx, 1, func(st *state) {
		row := st.nodes[of.ID]
		if row == nil {
			row = &node{}
			st.nodes[of.ID] = row
		}
		row.Seen = store.Seen{Node: of, At: s.now()}
		row.beat++
		beat = store.Beat{Number: row.beat, Replicated: st.replicated}
		for id, n := range st.nodes {
			if id != of.ID && n.Node.Name == of.Name && n.At > row.At-impart.Millis(store.FreshBeat.Milliseconds()) {
				beat.Namesakes++
			}
		}
	})
	return beat, err
}

// Leave implements [store.Failover].
func (s *Store) Leave(ctx context.Context, of store.Node) error {
	return s.write(ctx, 1, func(st *state) { delete(st.nodes, of.ID) })
}

// Replicate lets beats say that commits wait for a standby, or that they do not.
func (s *Store) Replicate(replicated bool) {
	d := s.on()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state.replicated = replicated
}

func (s *Store) reachable(ctx context.Context) error {
	if s.cut.Load() {
		return errCut
	}
	return errors.Join(ctx.Err(), s.closed())
}

// within runs do on the server that halt is about, if it is still the one.
func (s *Store) within(ctx context.Context, halt *store.Halt, do func(d *disk)) error {
	if err := s.reachable(ctx); err != nil {
		return err
	}
	d := s.on()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life != s.life.Load() || s.crashed.Load() {
		return errCrashed
	}
	if d.name() != halt.Now.Incarnation {
		return fmt.Errorf("memstore: the server is %s now, and not %s: look again", d.name(), halt.Now.Incarnation)
	}
	do(d)
	return nil
}

// Missing implements [store.Failover].
func (s *Store) Missing(ctx context.Context, halt *store.Halt, promises []store.Promise) (missing []store.Promise, err error) {
	err = s.within(ctx, halt, func(d *disk) {
		for i := range promises {
			if !d.state.keeps(&promises[i]) {
				missing = append(missing, promises[i])
			}
		}
	})
	return missing, err
}

// keeps reports whether a promise is kept.
func (st *state) keeps(p *store.Promise) bool {
	switch p.What {
	case store.PromisedMessage, store.PromisedShown:
		c := st.convs[p.Conv]
		if c == nil {
			return false
		}
		ev := c.at(p.Seq)
		return p.Seq <= c.floor || ev != nil && ev.MID == p.MID
	case store.PromisedCursor:
		row := st.cursors[cursorKey{deviceKey{p.User, p.Device}, p.Conv}]
		return row != nil && cmp.Or(cmp.Compare(row.install, p.Install), cmp.Compare(row.epoch, p.Epoch), cmp.Compare(row.delivered, p.Seq)) >= 0
	case store.PromisedRead:
		row := st.reads[readKey{p.User, p.Conv}]
		return row != nil && cmp.Or(cmp.Compare(row.epoch, p.Epoch), cmp.Compare(row.seq, p.Seq)) >= 0
	case store.PromisedSession:
		row := st.devices[deviceKey{p.User, p.Device}]
		return row != nil && row.session >= p.Number
	case store.PromisedChange:
		c := st.convs[p.Conv]
		return c != nil && c.head >= p.Seq
	case store.PromisedBeat:
		row := st.nodes[p.Node]
		return row != nil && row.beat >= p.Number
	}
	return false
}

// Judge implements [store.Failover].
func (s *Store) Judge(ctx context.Context, halt *store.Halt, given store.Verdict, rule store.Rule) (out store.Judgement, err error) {
	failed := s.within(ctx, halt, func(d *disk) {
		st := &d.state
		s.known.mu.Lock()
		defer s.known.mu.Unlock()
		if st.incarnation == d.name() && st.judged > s.known.judged {
			out = st.afterwards(given, s.now())
		} else {
			if change := d.change(); change != halt.Change {
				err = fmt.Errorf("memstore: the change is %s now, and not %s: look again", change, halt.Change)
				return
			}
			out = st.decide(d, halt.Change, max(st.judged, s.known.judged), given, rule, s.now())
		}
		if !out.Waiting {
			s.known.accepted, s.known.judged, s.known.halt = out.Meta, st.judged, nil
		}
	})
	return out, errors.Join(failed, err)
}

// change names what is there while nobody has judged it.
func (d *disk) change() string { return fmt.Sprintf("%s#%d", d.name(), d.state.judged) }

// decide is step 1 of [store.Failover.Judge].
func (st *state) decide(d *disk, change string, known int64, given store.Verdict, rule store.Rule, now impart.Millis) store.Judgement {
	first := now
	if before := st.verdicts[change+" "+given.Node.ID]; before != nil {
		first = before.at
	}
	st.verdicts[change+" "+given.Node.ID] = &verdict{given, change, first, 0}
	bench := store.Bench{Now: now, First: now}
	for _, id := range sortedKeys(st.nodes) {
		bench.Nodes = append(bench.Nodes, st.nodes[id].Seen)
	}
	epoch, counted := st.epoch, []*verdict{}
	for _, key := range sortedKeys(st.verdicts) {
		if v := st.verdicts[key]; v.change == change {
			bench.Verdicts, counted = append(bench.Verdicts, v.Verdict), append(counted, v)
			bench.First, epoch = min(bench.First, v.at), max(epoch, v.Epoch)
		}
	}
	ruling := rule(bench)
	if ruling == store.Wait {
		return store.Judgement{Waiting: true}
	}
	if ruling == store.Raise {
		st.epoch = max(epoch+1, impart.Epoch(now))
	}
	st.incarnation, st.judged = d.name(), max(known+1, int64(now))
	for _, v := range counted {
		v.judged = st.judged
	}
	for id, n := range st.nodes {
		n.At = now - impart.Millis(store.DeadFor.Milliseconds())
		if slices.ContainsFunc(bench.Verdicts, func(v store.Verdict) bool { return v.Node.ID == id }) {
			n.At = now
		}
	}
	return store.Judgement{Meta: store.Meta{Epoch: st.epoch, Incarnation: st.incarnation}, Decided: true, Raised: ruling == store.Raise}
}

// afterwards are its steps 2 and 3.
func (st *state) afterwards(given store.Verdict, now impart.Millis) store.Judgement {
	out := store.Judgement{Late: true}
	for _, v := range st.verdicts {
		if v.judged == st.judged {
			out.Counted = append(out.Counted, v.Verdict)
			out.Late = out.Late && v.Node.ID != given.Node.ID
		}
	}
	slices.SortFunc(out.Counted, func(a, b store.Verdict) int { return cmp.Compare(a.Node.ID, b.Node.ID) })
	if out.Late {
		change := fmt.Sprintf("%s#%d", st.incarnation, st.judged)
		st.verdicts[change+" "+given.Node.ID] = &verdict{given, change, now, st.judged}
		out.Late = true
		if given.Missing > 0 || given.Behind || given.Epoch > st.epoch {
			st.epoch = max(st.epoch+1, given.Epoch+1, impart.Epoch(now))
			out.Raised = true
		}
	}
	out.Meta = store.Meta{Epoch: st.epoch, Incarnation: st.incarnation}
	return out
}
