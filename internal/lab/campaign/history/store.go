package history

import (
	"maps"
	"slices"
	"time"

	"github.com/impart-im/impart"
)

// Store is one local store of a device, with the application that uses it: what
// it has taken and what it was handed. A reinstall, a rolled-back backup and a
// clone are stores of their own.
type Store struct {
	Name   string // such as "u-ana d-1 #2"
	User   impart.UserID
	Device impart.DeviceID
	Start  *int64 // the history that it asked for; nil: all
	Again  bool   // the device had another store before

	// tape.mu guards what follows.
	tape      *Tape
	lost      bool
	born      Moment
	taken     []impart.CMID
	cancelled []impart.CMID
	older     map[impart.CMID]bool // taken here, but sent before from another store
	views     map[impart.ConvID]*view
}

// view is what an application was handed of one conversation.
type view struct {
	events []impart.Event // by seq, rewound ones taken out
	crash  bool           // the application has crashed: events may come again
}

// NewStore begins a store that is empty, or that holds what an older one held.
func (t *Tape) NewStore(s Store, from *Store) *Store {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.tape, s.born, s.older, s.views = t, t.tick(), map[impart.CMID]bool{}, map[impart.ConvID]*view{}
	if from != nil {
		s.taken, s.cancelled, s.older = slices.Clone(from.taken), slices.Clone(from.cancelled), maps.Clone(from.older)
		s.views = cloneViews(from.views)
		for _, v := range s.views {
			v.crash = true
		}
	}
	t.stores = append(t.stores, &s)
	return &s
}

func cloneViews(views map[impart.ConvID]*view) map[impart.ConvID]*view {
	out := maps.Clone(views)
	for id, v := range out {
		out[id] = &view{events: slices.Clone(v.events), crash: v.crash}
	}
	return out
}

// Copy is the store as it is now, for when a copy of its file is put to use.
func (s *Store) Copy() *Store {
	s.tape.mu.Lock()
	defer s.tape.mu.Unlock()
	c := *s
	c.taken, c.cancelled, c.older, c.views = slices.Clone(s.taken), slices.Clone(s.cancelled), maps.Clone(s.older), cloneViews(s.views)
	return &c
}

// Lost writes down that the store is gone: what only it held may be gone too.
func (s *Store) Lost() {
	s.tape.mu.Lock()
	defer s.tape.mu.Unlock()
	s.lost = true
}

// Crashed writes down that the application ended without notice: what it was
// handed last may come again.
func (s *Store) Crashed() {
	s.tape.mu.Lock()
	defer s.tape.mu.Unlock()
	for _, v := range s.views {
		v.crash = true
	}
}

// Handed writes down that the application was handed an event.
func (s *Store) Handed(ev impart.Event) {
	s.tape.mu.Lock()
	defer s.tape.mu.Unlock()
	v := s.views[ev.Conv]
	if v == nil {
		v = &view{}
		s.views[ev.Conv] = v
	}
	last := impart.Seq(0)
	if n := len(v.events); n > 0 {
		last = v.events[n-1].Seq
	}
	i, known := slices.BinarySearchFunc(v.events, ev.Seq, func(e impart.Event, seq impart.Seq) int { return int(e.Seq - seq) })
	switch {
	case known && v.events[i].MID != ev.MID:
		s.tape.fault("D9", "%s was handed another %s %d (%s, before %s) and was not told that history has changed", s.Name, ev.Conv, ev.Seq, ev.MID, v.events[i].MID)
	case known && !v.crash:
		s.tape.fault("D2", "%s was handed %s %d twice, without a crash", s.Name, ev.Conv, ev.Seq)
	case !known && ev.Seq < last:
		s.tape.fault("D7", "%s was handed %s %d after %d", s.Name, ev.Conv, ev.Seq, last)
	}
	if known {
		v.events[i] = ev
		return
	}
	v.events, v.crash = slices.Insert(v.events, i, ev), false
}

// Rewound writes down that the application was told to forget events.
func (s *Store) Rewound(conv impart.ConvID, after impart.Seq) {
	s.tape.mu.Lock()
	defer s.tape.mu.Unlock()
	if v := s.views[conv]; v != nil {
		v.events = slices.DeleteFunc(v.events, func(ev impart.Event) bool { return ev.Seq > after })
	}
}

// seen says when an event was last shown, and when with its text.
type seen struct {
	kind impart.Kind
	text time.Time // zero: never with a text
}

// Saw writes down that a frame showed events to a user.
func (t *Tape) Saw(user impart.UserID, epoch impart.Epoch, events ...impart.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range events {
		ev := &events[i]
		k := sight{user, epoch, ev.Conv, ev.Seq, ev.MID}
		got := t.sights[k]
		if got == nil {
			got = &seen{kind: ev.Kind}
			t.sights[k] = got
		}
		if ev.Body != "" {
			got.text = time.Now()
		}
	}
}
