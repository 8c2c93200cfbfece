// Package history writes down what one run of the campaign did and saw, and
// judges it: the log of each conversation against a sequential model, and the
// invariants D1 to D17 as far as they can be seen from outside. It shares no rule
// with the server or the SDK: who may see what is worked out anew from the log.
// A finding names the invariants that it breaks; what was never written down
// cannot be found.
package history

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/impart-im/impart"
)

// Moment orders what was written down: if one call ended before another began,
// it has the lower moment.
type Moment int64

// Conversation is one that the run has made.
type Conversation struct {
	ID       impart.ConvID
	History  impart.History
	Founders []impart.UserID
}

// Finding is something that must not be.
type Finding struct {
	Breaks []string // the invariants, "D1" to "D17"
	What   string
}

func (f Finding) String() string { return strings.Join(f.Breaks, "/") + ": " + f.What }

// Names reports whether the finding names an invariant.
func (f Finding) Names(invariant string) bool { return slices.Contains(f.Breaks, invariant) }

// key names a message: the pair, byte for byte.
type key struct {
	user impart.UserID
	cmid impart.CMID
}

// Item is a message, or a recall of one, that somebody wanted to have stored.
type Item struct {
	User   impart.UserID
	Conv   impart.ConvID
	CMID   impart.CMID
	Kind   impart.Kind
	Body   string
	Target impart.CMID // of a recall: the message
}

// wanted is what became of an item. Several stores may have held it.
type wanted struct {
	Item
	called   Moment
	returned Moment // 0: it is not known whether it was taken
	answers  []answer
	refusals []refusal
	cancel   bool
	recall   bool // a recall of it was taken
}

// answer is one "sent" that somebody got.
type answer struct {
	seq impart.Seq
	mid impart.MID
	at  Moment
	on  time.Time
}

// refusal is a final one.
type refusal struct {
	code impart.Code
	at   Moment
}

// era is the time in which the server's history was one: it ends when a backup
// is restored. Several epochs may belong to it.
type era struct {
	from   Moment
	to     Moment // 0: the present one
	epochs []impart.Epoch
	logs   map[impart.ConvID][]impart.Event // as they were at its end
	before map[impart.ConvID]impart.Seq     // how much of them was there at its beginning
	unsure bool                             // an epoch may have been raised in it that nobody was told of
	end    impart.Epoch                     // in which its logs were read at its end; 0: it has not ended
}

// call is something else that was asked of the server: a membership, or a look
// at a whole log.
type call struct {
	what          string // join, leave or look
	conv          impart.ConvID
	user          impart.UserID
	called, ended Moment
	head          impart.Seq // of a look
	ok            bool
}

// Tape is where a run is written down. Its methods may be called by several
// goroutines.
type Tape struct {
	Convs []Conversation

	mu     sync.Mutex // guards what follows
	moment Moment
	items  map[key]*wanted
	calls  []call
	eras   []*era
	sights map[sight]*seen
	stores []*Store
	wrong  []Finding
}

// New begins a tape: a run with these conversations, in this epoch.
func New(convs []Conversation, epoch impart.Epoch) *Tape {
	return &Tape{
		Convs: convs, items: map[key]*wanted{}, sights: map[sight]*seen{},
		eras: []*era{{epochs: []impart.Epoch{epoch}, before: map[impart.ConvID]impart.Seq{}}},
	}
}

// tick is the next moment. t.mu is held.
func (t *Tape) tick() Moment {
	t.moment++
	return t.moment
}

// Wrong writes down a finding, once.
func (t *Tape) Wrong(breaks, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fault(breaks, format, args...)
}

// maxFindings bounds what one run tells.
const maxFindings = 50

func (t *Tape) fault(breaks, format string, args ...any) {
	f := Finding{Breaks: strings.Split(breaks, "/"), What: fmt.Sprintf(format, args...)}
	same := func(o Finding) bool { return o.What == f.What }
	if len(t.wrong) < maxFindings && !slices.ContainsFunc(t.wrong, same) {
		t.wrong = append(t.wrong, f)
	}
}

// Findings are what was found so far.
func (t *Tape) Findings() []Finding {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.wrong)
}

// Wants writes down that an item is about to be given to somebody who sends it;
// it may be the same one again.
func (t *Tape) Wants(it Item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := key{it.User, it.CMID}
	if t.items[k] == nil {
		t.items[k] = &wanted{Item: it, called: t.tick()}
	}
}

// Made writes down an item whose cmid was made by the SDK, in a call that began
// at a moment.
func (t *Tape) Made(began Moment, s *Store, it Item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := key{it.User, it.CMID}
	w := t.items[k]
	if w == nil {
		w = &wanted{}
		t.items[k] = w
	}
	w.Item, w.called, w.returned = it, began, t.tick()
	if target := t.items[key{it.User, it.Target}]; target != nil {
		target.recall = true
	}
	s.taken = append(s.taken, it.CMID)
}

// Took writes down that it was durably taken by a store (nil: by a bare request).
func (t *Tape) Took(s *Store, user impart.UserID, cmid impart.CMID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.items[key{user, cmid}]
	if w.returned == 0 {
		w.returned = t.tick()
	}
	if s != nil && !slices.Contains(s.taken, cmid) {
		s.taken = append(s.taken, cmid)
		s.older[cmid] = w.called < s.born
	}
}

// Sent writes down that somebody was told where an item is stored.
func (t *Tape) Sent(user impart.UserID, cmid impart.CMID, conv impart.ConvID, seq impart.Seq, mid impart.MID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.items[key{user, cmid}]
	if w == nil { // the SDK made it: a recall of what was cancelled
		w = &wanted{Item: Item{User: user, Conv: conv, CMID: cmid}}
		t.items[key{user, cmid}] = w
	}
	if conv != w.Conv {
		t.fault("D12", "%s of %s went to %s and was answered with %s %d", cmid, user, w.Conv, conv, seq)
	}
	w.answers = append(w.answers, answer{seq, mid, t.tick(), time.Now()})
}

// Refused writes down a final refusal.
func (t *Tape) Refused(user impart.UserID, cmid impart.CMID, code impart.Code) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.items[key{user, cmid}]; w != nil {
		w.refusals = append(w.refusals, refusal{code, t.tick()})
	}
}

// Cancelled writes down that a message was taken back, wherever it was by then.
func (t *Tape) Cancelled(s *Store, cmid impart.CMID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.cancelled = append(s.cancelled, cmid)
	if w := t.items[key{s.User, cmid}]; w != nil {
		w.cancel = true
	}
}

// TakenBack reports whether a message was cancelled or recalled.
func (t *Tape) TakenBack(user impart.UserID, cmid impart.CMID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.items[key{user, cmid}]
	return w != nil && (w.cancel || w.recall)
}

// Placed is where a message was last said to be stored.
func (t *Tape) Placed(user impart.UserID, cmid impart.CMID) (seq impart.Seq, mid impart.MID, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.items[key{user, cmid}]
	if w == nil || len(w.answers) == 0 {
		return 0, "", false
	}
	last := w.answers[len(w.answers)-1]
	return last.seq, last.mid, true
}

// Begin takes the moment at which a call begins; the call ends with [Tape.Member]
// or [Tape.Looked].
func (t *Tape) Begin() Moment {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tick()
}

// Member writes down that a membership was asked for. ok: it was answered.
func (t *Tape) Member(began Moment, join bool, conv impart.ConvID, user impart.UserID, ok bool) {
	what := "leave"
	if join {
		what = "join"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, call{what: what, conv: conv, user: user, called: began, ended: t.tick(), ok: ok})
}

// Looked writes down how long a log was that somebody read to its end.
func (t *Tape) Looked(began Moment, conv impart.ConvID, head impart.Seq) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, call{what: "look", conv: conv, called: began, ended: t.tick(), head: head, ok: true})
}

// Epoch writes down that the epoch was raised and nothing was lost.
func (t *Tape) Epoch(epoch impart.Epoch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.eras[len(t.eras)-1]
	now.epochs = append(now.epochs, epoch)
}

// MayEpoch writes down that the epoch was perhaps raised: there was no answer.
func (t *Tape) MayEpoch() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last().unsure = true
}

// Ends closes the present era: its logs are now as given, and were read in this epoch.
func (t *Tape) Ends(epoch impart.Epoch, logs map[impart.ConvID][]impart.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.eras[len(t.eras)-1]
	now.to, now.logs, now.end = t.tick(), logs, epoch
}

// Restored opens a new era, on a backup with these logs.
func (t *Tape) Restored(epoch impart.Epoch, logs map[impart.ConvID][]impart.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := &era{from: t.tick(), epochs: []impart.Epoch{epoch}, before: map[impart.ConvID]impart.Seq{}}
	for conv, log := range logs {
		next.before[conv] = impart.Seq(len(log))
	}
	t.eras = append(t.eras, next)
}

// raised reports whether an epoch was raised in the era i. t.mu is held.
func (t *Tape) raised(i int, epoch impart.Epoch) bool {
	e := t.eras[i]
	if slices.Contains(e.epochs, epoch) {
		return true
	}
	if i > 0 && epoch < e.epochs[0] {
		// Nodes that notice a backup raise the epoch by themselves, before the operator does.
		return epoch > max(t.eras[i-1].end, slices.Max(t.eras[i-1].epochs))
	}
	return e.unsure && epoch > e.epochs[0] && (e.end == 0 || epoch <= e.end)
}

// Epochs is how many epochs there were so far.
func (t *Tape) Epochs() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, e := range t.eras {
		n += len(e.epochs)
	}
	return n
}

// Undone reports whether an event was told of in an era that has ended: it may
// not be there any more.
func (t *Tape) Undone(mid impart.MID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.items {
		for _, a := range w.answers {
			if a.mid == mid && a.at > t.last().from {
				return false
			}
		}
	}
	return len(t.eras) > 1
}

// last is the era at the end of the run. t.mu is held.
func (t *Tape) last() *era { return t.eras[len(t.eras)-1] }

func (t *Tape) conv(id impart.ConvID) Conversation {
	for _, c := range t.Convs {
		if c.ID == id {
			return c
		}
	}
	return Conversation{ID: id}
}
