package history

import (
	"github.com/impart-im/impart"
)

// judgeHeld compares every store in use, and what its application was handed,
// with what its user may see.
func (t *Tape) judgeHeld(f *Final) {
	for i := range f.Held {
		h := &f.Held[i]
		s := h.Store
		if len(h.Outbox) > 0 {
			t.fault("D16", "%s still has %d items in its outbox, the first is %s; %s", s.Name, len(h.Outbox), h.Outbox[0], h.Status)
		}
		for _, c := range t.Convs {
			t.judgeHeldConv(f, h, c)
		}
	}
}

func (t *Tape) judgeHeldConv(f *Final, h *Held, c Conversation) {
	s := h.Store
	log := f.Logs[c.ID]
	held, begun := h.Convs[c.ID]
	may := Visible(c, log, s.User)
	sees := may
	switch {
	case s.Start != nil && !begun && *s.Start == 0:
		sees = nil // it starts at the head, and learns of the conversation with the next event
	case s.Start != nil:
		sees = above(sees, held.Start)
	}
	// The server's cursor above something that the device lacks is the worst: nobody
	// will ever send that again.
	lacks := "D5"
	if s.Again || len(t.eras) > 1 || len(t.last().epochs) > 1 {
		lacks += "/D9"
	}
	for i := range sees {
		if seq := sees[i].Seq; at(held.Events, seq) == nil && seq <= max(held.Delivered, held.Stored) {
			lacks += "/D3"
			break
		}
	}
	// An event from before a start was on its way when the device said hello.
	t.compare(s.Name, lacks, c.ID, held.Events, sees, may)
	if n := len(sees); n > 0 && held.Delivered < sees[n-1].Seq {
		t.fault("D5/D3", "the server's cursor of %s in %s is %d and should be %d", s.Name, c.ID, held.Delivered, sees[n-1].Seq)
	}
	if held.Delivered > impart.Seq(len(log)) {
		t.fault("D4", "the server's cursor of %s in %s is %d, past the head %d", s.Name, c.ID, held.Delivered, len(log))
	}
	var handed []impart.Event
	if v := s.views[c.ID]; v != nil {
		handed = v.events
	}
	if s.Start != nil {
		handed = above(handed, held.Start)
	}
	t.compareHanded(s.Name, c.ID, handed, sees)
}

func above(events []impart.Event, seq impart.Seq) []impart.Event {
	for len(events) > 0 && events[0].Seq <= seq {
		events = events[1:]
	}
	return events
}

// compare tells how what somebody holds differs from what they should hold, and
// from all that they may see.
func (t *Tape) compare(name, lacks string, conv impart.ConvID, held, sees, may []impart.Event) {
	for i := range sees {
		want := &sees[i]
		got := at(held, want.Seq)
		switch {
		case got == nil:
			t.fault(lacks, "%s lacks %s %d (%s %s)", name, conv, want.Seq, want.Kind, short(want.Body))
		case got.MID != want.MID:
			t.fault("D9", "%s has %s at %s %d, and the log has %s", name, got.MID, conv, want.Seq, want.MID)
		case want.Recalled && (!got.Recalled || got.Body != ""):
			t.fault("D17", "%s has the text %s of %s %d, which is recalled", name, short(got.Body), conv, want.Seq)
		case got.Kind != want.Kind || got.Sender != want.Sender || got.CMID != want.CMID || got.Body != want.Body || got.Recalled != want.Recalled:
			t.fault("D2/D9", "%s has %s of %s with %s at %s %d, and the log %s of %s with %s",
				name, got.CMID, got.Sender, short(got.Body), conv, want.Seq, want.CMID, want.Sender, short(want.Body))
		}
	}
	for i := range held {
		if at(may, held[i].Seq) == nil {
			t.fault("D8", "%s has %s %d (%s), which its user may not see", name, conv, held[i].Seq, held[i].Kind)
		}
	}
}

// compareHanded tells how what an application was handed differs from what its
// user may see. A text that was handed over before it was recalled is no fault.
func (t *Tape) compareHanded(name string, conv impart.ConvID, handed, sees []impart.Event) {
	for i := range sees {
		switch got := at(handed, sees[i].Seq); {
		case got == nil:
			t.fault("D5/D7", "the application of %s was not handed %s %d (%s)", name, conv, sees[i].Seq, sees[i].Kind)
		case got.MID != sees[i].MID:
			t.fault("D9", "the application of %s was handed %s for %s %d, and the log has %s", name, got.MID, conv, sees[i].Seq, sees[i].MID)
		}
	}
	for i := range handed {
		if at(sees, handed[i].Seq) == nil {
			t.fault("D8", "the application of %s was handed %s %d (%s), which its user may not see", name, conv, handed[i].Seq, handed[i].Kind)
		}
	}
}
