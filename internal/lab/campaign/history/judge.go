package history

import (
	"strings"
	"time"

	"github.com/impart-im/impart"
)

// Final is what is there once everything has been healed.
type Final struct {
	Logs  map[impart.ConvID][]impart.Event                   // as an auditor reads them
	Fresh map[impart.UserID]map[impart.ConvID][]impart.Event // as a device without a past reads them
	Held  []Held
}

// Held is what one store that is in use holds, and what the server knows of it.
type Held struct {
	Store   *Store
	Status  string
	Outbox  []impart.CMID
	Refused map[impart.CMID]impart.Code
	Convs   map[impart.ConvID]HeldConv
}

// HeldConv is one conversation of a store.
type HeldConv struct {
	Start, Stored, Handled, Read impart.Seq
	Events                       []impart.Event
	Delivered                    impart.Seq // the server's cursor of the device
}

// Unsettled is what the stores in use still lack: empty once all has come to rest.
func (t *Tape) Unsettled(f *Final) []Finding {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.wrong
	t.wrong = nil
	t.judgeHeld(f)
	found := t.wrong
	t.wrong = kept
	return found
}

// bodyGrace is how long after a recall its text may still be on its way.
const bodyGrace = time.Minute

// Judge looks at everything. It is called once, at the end.
func (t *Tape) Judge(f *Final) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.last()
	last.to, last.logs = t.tick(), f.Logs
	for _, c := range t.Convs {
		t.judgeLog(c, f.Logs[c.ID])
	}
	t.judgeAnswers()
	t.judgeItems(f)
	t.judgeHeld(f)
	t.judgeFresh(f)
	t.judgeSights()
	t.judgeOrder()
}

// judgeLog looks at a log by itself: no hole (D7), everything once (D2), and
// nothing that nobody sent (D12).
func (t *Tape) judgeLog(c Conversation, log []impart.Event) {
	mids, keys, bodies := map[impart.MID]impart.Seq{}, map[key]impart.Seq{}, map[string]impart.Seq{}
	for i := range log {
		ev := &log[i]
		if ev.Seq != impart.Seq(i+1) {
			t.fault("D7", "%s has seq %d at place %d", c.ID, ev.Seq, i+1)
		}
		if first := mids[ev.MID]; first != 0 {
			t.fault("D2", "%s has the mid %s at %d and %d", c.ID, ev.MID, first, ev.Seq)
		}
		mids[ev.MID] = ev.Seq
		if first := bodies[ev.Body]; first != 0 && ev.Body != "" {
			t.fault("D2", "%s has the text %s at %d and %d", c.ID, short(ev.Body), first, ev.Seq)
		}
		bodies[ev.Body] = ev.Seq
		if ev.CMID == "" {
			continue
		}
		k := key{ev.Sender, ev.CMID}
		if first := keys[k]; first != 0 {
			t.fault("D2", "%s has %s of %s at %d and %d", c.ID, ev.CMID, ev.Sender, first, ev.Seq)
		}
		keys[k] = ev.Seq
		t.judgeOrigin(log, ev)
	}
}

// judgeOrigin compares an event with what its sender wanted.
func (t *Tape) judgeOrigin(log []impart.Event, ev *impart.Event) {
	w := t.items[key{ev.Sender, ev.CMID}]
	switch {
	case w == nil && ev.Kind != impart.KindRecall:
		t.fault("D2/D12", "%s %d is %s of %s, which nobody sent", ev.Conv, ev.Seq, ev.CMID, ev.Sender)
	case ev.Kind == impart.KindRecall:
		target := at(log, ev.Target)
		if target == nil || target.MID != ev.TargetMID {
			t.fault("D12", "%s %d recalls %d, which is another message", ev.Conv, ev.Seq, ev.Target)
			return
		}
		if !target.Recalled || target.Body != "" || target.Ext != nil {
			t.fault("D17", "%s %d is recalled by %d and is served with its text %s", ev.Conv, target.Seq, ev.Seq, short(target.Body))
		}
		if item := t.items[key{ev.Sender, target.CMID}]; (w == nil || w.Kind == "") && (item == nil || !item.cancel && !item.recall) {
			t.fault("D12", "%s %d recalls %d, and nobody wanted that", ev.Conv, ev.Seq, ev.Target)
		}
	case ev.Conv != w.Conv || !ev.Recalled && ev.Body != w.Body:
		t.fault("D12", "%s %d is %s of %s, but it holds %s instead of %s", ev.Conv, ev.Seq, ev.CMID, ev.Sender, short(ev.Body), short(w.Body))
	case ev.Recalled && ev.Body != "":
		t.fault("D17", "%s %d is recalled and has its text", ev.Conv, ev.Seq)
	}
}

// judgeAnswers: whatever anybody was told to be stored is in the log (D1), and
// was told to be in one place (D2).
func (t *Tape) judgeAnswers() {
	for k, w := range t.items {
		places := map[*era]answer{}
		for _, a := range w.answers {
			e, ev := t.find(w.Conv, a.mid)
			switch {
			case ev == nil:
				t.fault("D1/D2", "%s was told that %s is at %s %d (%s), and no log has that", k.user, k.cmid, w.Conv, a.seq, a.mid)
				continue
			case ev.Seq != a.seq || ev.Sender != k.user || ev.CMID != k.cmid:
				t.fault("D1/D2/D12", "%s was told that %s is at %s %d, and that is %s of %s at %d", k.user, k.cmid, w.Conv, a.seq, ev.CMID, ev.Sender, ev.Seq)
			}
			if first, told := places[e]; told && first.mid != a.mid {
				t.fault("D2", "%s was told that %s is at %s %d, and at %d", k.user, k.cmid, w.Conv, first.seq, a.seq)
			}
			places[e] = a
		}
	}
}

// find looks for an event by its mid, in the latest era that has it.
func (t *Tape) find(conv impart.ConvID, mid impart.MID) (*era, *impart.Event) {
	for i := len(t.eras) - 1; i >= 0; i-- {
		log := t.eras[i].logs[conv]
		for j := range log {
			if log[j].MID == mid {
				return t.eras[i], &log[j]
			}
		}
	}
	return nil, nil
}

// judgeItems: what a store in use has taken is in the log, in the order in which
// it was taken, unless it was refused or cancelled (D16, D14, D13).
func (t *Tape) judgeItems(f *Final) {
	stored := map[key]*impart.Event{}
	for _, log := range f.Logs {
		for i := range log {
			if ev := &log[i]; ev.CMID != "" {
				stored[key{ev.Sender, ev.CMID}] = ev
			}
		}
	}
	for k, w := range t.items {
		for _, r := range w.refusals {
			t.judgeRefusal(k, w, r.code)
			// Refused before it was stored: another store may have sent it again later.
			if stored[k] != nil && len(t.eras) == 1 && len(w.answers) > 0 && w.answers[0].at < r.at {
				t.fault("D13/D2", "%s of %s is in the log at %d and was refused for good later (%s)", k.cmid, k.user, stored[k].Seq, r.code)
			}
		}
	}
	for i := range f.Held {
		t.judgeTaken(&f.Held[i], stored)
	}
}

func (t *Tape) judgeRefusal(k key, w *wanted, code impart.Code) {
	fits := false
	switch code {
	case impart.NotMember:
		fits = !steady(w.Conv)
	case impart.TooLarge:
		fits = len(w.Body) > 64<<10
	case impart.RecallRefused:
		fits = w.Kind == impart.KindRecall || w.Kind == ""
	case impart.CMIDReused:
		t.fault("D12", "%s of %s was taken for another message", k.cmid, k.user)
		return
	}
	if !fits {
		t.fault("D13", "%s of %s in %s was refused for good with %s", k.cmid, k.user, w.Conv, code)
	}
}

// steady reports whether nobody leaves the conversation.
func steady(conv impart.ConvID) bool { return strings.HasPrefix(string(conv), "c-all") }

func (t *Tape) judgeTaken(h *Held, stored map[key]*impart.Event) {
	s := h.Store
	for cmid, code := range h.Refused {
		if k := (key{s.User, cmid}); t.items[k] != nil {
			t.judgeRefusal(k, t.items[k], code)
		}
	}
	placed := map[impart.ConvID]*impart.Event{}
	for _, cmid := range s.taken {
		k := key{s.User, cmid}
		w, ev := t.items[k], stored[k]
		if ev == nil {
			// What was recalled and then undone has no text any more to be sent again.
			gone := w.cancel || w.recall && len(t.eras) > 1
			// What stands below the store's beginning cannot be kept there to be undone.
			gone = gone || s.Start != nil && s.older[cmid]
			// An application that has ended is not told of a refusal; its store knows.
			gone = gone || h.Refused[cmid] != ""
			if len(w.refusals) == 0 && !gone && w.Kind == impart.KindMsg {
				t.fault("D16", "%s took %s for %s, and it is neither stored nor refused", s.Name, cmid, w.Conv)
			}
			continue
		}
		if w.Kind != impart.KindMsg || w.cancel || s.older[cmid] {
			continue // cancelled, and sent by an older backup of the store; or sent by another store before
		}
		if before := placed[ev.Conv]; before != nil && before.Seq > ev.Seq && (!s.Again || len(t.eras) == 1) {
			t.fault("D14", "%s took %s before %s, and %s has them at %d and %d", s.Name, before.CMID, cmid, ev.Conv, before.Seq, ev.Seq)
		}
		placed[ev.Conv] = ev
	}
	for _, cmid := range s.cancelled {
		// Who has left a conversation cannot recall there any more, and what stands below
		// the store's beginning is never seen there.
		ev := stored[key{s.User, cmid}]
		unseen := s.Start != nil && s.older[cmid]
		if ev != nil && !ev.Recalled && steady(ev.Conv) && !unseen {
			t.fault("D17", "%s took %s back, and it is in %s at %d", s.Name, cmid, ev.Conv, ev.Seq)
		}
	}
}

// judgeFresh: a device without a past reads what its user may see, and no more. It
// goes from page to page by their through, which must not run ahead (D3).
func (t *Tape) judgeFresh(f *Final) {
	for user, convs := range f.Fresh {
		for _, c := range t.Convs {
			sees := Visible(c, f.Logs[c.ID], user)
			t.compare("a new device of "+string(user), "D5/D3", c.ID, convs[c.ID], sees, sees)
		}
	}
}

// judgeSights: nobody was shown what they may not see (D8), nor what never
// became part of the log (D1), nor a text after it was recalled (D17).
func (t *Tape) judgeSights() {
	for k, got := range t.sights {
		var in *era
		for i, e := range t.eras {
			if t.raised(i, k.epoch) {
				in = e
			}
		}
		if in == nil {
			t.fault("D18", "%s was shown %s %d in the epoch %d, which nobody raised", k.user, k.conv, k.seq, k.epoch)
			continue
		}
		log := in.logs[k.conv]
		ev := at(log, k.seq)
		if ev == nil || ev.MID != k.mid {
			t.fault("D1/D7", "%s was shown %s %d with the mid %s, which the log does not have", k.user, k.conv, k.seq, k.mid)
			continue
		}
		if at(Visible(t.conv(k.conv), log, k.user), k.seq) == nil {
			t.fault("D8", "%s was shown %s %d (%s) and may not see it", k.user, k.conv, k.seq, got.kind)
		}
		if recall := recallOf(log, k.seq); recall != nil && !got.text.IsZero() && in == t.last() {
			for _, a := range t.recallAnswers(recall) {
				if a.at > in.from && got.text.After(a.on.Add(bodyGrace)) {
					t.fault("D17", "%s was shown the text of %s %d long after it was recalled", k.user, k.conv, k.seq)
				}
			}
		}
	}
}

func (t *Tape) recallAnswers(recall *impart.Event) []answer {
	if w := t.items[key{recall.Sender, recall.CMID}]; w != nil {
		return w.answers
	}
	return nil
}

func recallOf(log []impart.Event, target impart.Seq) *impart.Event {
	for i := range log {
		if log[i].Kind == impart.KindRecall && log[i].Target == target {
			return &log[i]
		}
	}
	return nil
}

// at is the event at seq, or nil.
func at(events []impart.Event, seq impart.Seq) *impart.Event {
	for i := range events {
		if events[i].Seq == seq {
			return &events[i]
		}
	}
	return nil
}

// short is a text for a message.
func short(text string) string {
	if len(text) > 24 {
		return text[:24] + "…"
	}
	return `"` + text + `"`
}
