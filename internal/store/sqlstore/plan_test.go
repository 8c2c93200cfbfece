package sqlstore

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// desk plans appends to a conversation of ana, ben and, since seq 5, cy; its last
// seq is 9.
type desk struct {
	conv    *convState
	members map[impart.UserID]*member
	taken   map[dedupKey]*dedupRow
	logged  map[dedupKey]*impart.Event
	stored  map[impart.Seq]*impart.Event
}

func newDesk() *desk {
	return &desk{
		conv: &convState{id: "c", next: 10},
		members: map[impart.UserID]*member{
			"ana": {impart.Periods{{From: 1}}, impart.RoleAdmin},
			"ben": {impart.Periods{{From: 1}}, impart.RoleMember},
			"cy":  {impart.Periods{{From: 5}}, impart.RoleMember},
			"dan": {impart.Periods{{From: 1, To: 7}}, impart.RoleMember},
		},
		taken: map[dedupKey]*dedupRow{}, logged: map[dedupKey]*impart.Event{}, stored: map[impart.Seq]*impart.Event{},
	}
}

func (d *desk) plan(items ...store.Append) *plan {
	var refs []*store.Append
	var known []facts
	for i := range items {
		a := &items[i]
		f := facts{member: d.members[a.Sender], taken: d.taken[keyOf(a.Sender, a.CMID)], prev: d.taken[keyOf(a.Sender, a.Prev)]}
		f.logged, f.prevLogged = d.logged[keyOf(a.Sender, a.CMID)], d.logged[keyOf(a.Sender, a.Prev)] != nil
		if a.Conv == "c" {
			f.conv = d.conv
		}
		if a.Kind == impart.KindRecall {
			f.target, f.head = d.stored[a.Target], d.conv.last()
		}
		refs, known = append(refs, a), append(known, f)
	}
	return planAppends(3, refs, known, false)
}

func says(user impart.UserID, cmid impart.CMID, body string) store.Append {
	return hashed(store.Append{Kind: impart.KindMsg, Sender: user, Conv: "c", CMID: cmid, Body: body, MID: impart.MID("m-" + cmid), At: 100})
}

func takesBack(user impart.UserID, cmid impart.CMID, target impart.Seq) store.Append {
	return hashed(store.Append{Kind: impart.KindRecall, Sender: user, Conv: "c", CMID: cmid, Target: target, MID: impart.MID("m-" + cmid), At: 100})
}

func codes(p *plan) (out []impart.Code) {
	for _, o := range p.outcomes {
		out = append(out, impart.CodeOf(o.Err))
	}
	return out
}

func TestPlanNumbersWithoutHoles(t *testing.T) {
	d := newDesk()
	late := says("ana", "5", "x")
	late.Prev = "never"
	p := d.plan(says("ana", "1", "a"), says("eve", "2", "b"), says("dan", "3", "c"), says("ben", "4", "d"), late, says("cy", "6", "e"))
	want := []impart.Code{"", impart.NotMember, impart.NotMember, "", impart.OutOfOrder, ""}
	if diff := cmp.Diff(want, codes(p)); diff != "" {
		t.Fatal(diff)
	}
	if p.outcomes[0].Seq != 10 || p.outcomes[3].Seq != 11 || p.outcomes[5].Seq != 12 || d.conv.next != 13 {
		t.Errorf("%+v, next %d", p.outcomes, d.conv.next)
	}
	if len(p.events) != 3 || len(p.keys) != 3 || len(p.convs) != 1 || len(p.touched) != 0 {
		t.Errorf("%d events, %d keys, %d conversations, %d touched", len(p.events), len(p.keys), len(p.convs), len(p.touched))
	}
}

func TestPlanOfRefusalsWritesNothing(t *testing.T) {
	d := newDesk()
	old := says("ana", "1", "a")
	old.Epoch = 2
	p := d.plan(old, says("eve", "2", "b"), takesBack("ben", "3", 4))
	if len(p.events)+len(p.keys)+len(p.convs)+len(p.touched)+len(p.recalled) != 0 || d.conv.next != 10 {
		t.Errorf("%+v", p)
	}
	if e := impart.AsError(p.outcomes[0].Err); e.Code != impart.EpochChanged || e.Epoch != 3 {
		t.Errorf("%+v", e)
	}
}

// Each step of Append comes before the next: an item that could be refused for
// two reasons is refused for the first.
func TestPlanChecksInOrder(t *testing.T) {
	d := newDesk()
	d.taken[keyOf("eve", "k")] = &dedupRow{conv: "c", seq: 4, mid: "first", at: 7, hash: contentHash{sum: says("eve", "k", "x").Hash}}
	with := func(a store.Append, change func(*store.Append)) store.Append {
		change(&a)
		return a
	}
	oldEpoch := func(a *store.Append) { a.Epoch = 2 }
	noPrev := func(a *store.Append) { a.Prev = "never" }
	p := d.plan(
		with(says("eve", "k", "x"), oldEpoch), // epoch before dedup
		says("eve", "k", "x"),                 // dedup before membership
		says("eve", "k", "y"),                 // other content before membership
		with(says("eve", "l", "x"), noPrev),   // membership before prev
		with(takesBack("ben", "r", 99), noPrev),
		takesBack("ben", "r", 99),
		takesBack("ben", "r", 4),
	)
	want := []impart.Code{
		impart.EpochChanged, "", impart.CMIDReused, impart.NotMember, impart.OutOfOrder, impart.CursorAhead, impart.RecallRefused,
	}
	if diff := cmp.Diff(want, codes(p)); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff(store.Appended{Seq: 4, MID: "first", At: 7, Dup: true, Epoch: 3}, p.outcomes[1]); diff != "" {
		t.Error(diff)
	}
	if len(p.touched) != 1 {
		t.Errorf("the duplicate's row is not written: %v", p.touched)
	}
}

func TestPlanSeesItsOwnItems(t *testing.T) {
	d := newDesk()
	second := says("ana", "2", "b")
	second.Prev = "1"
	p := d.plan(says("ana", "1", "a"), second, says("ana", "1", "a"), says("ana", "1", "other"), takesBack("ana", "r", 10), takesBack("ana", "r2", 10), takesBack("cy", "r3", 11))
	want := []impart.Code{"", "", "", impart.CMIDReused, "", impart.RecallRefused, impart.RecallRefused}
	if diff := cmp.Diff(want, codes(p)); diff != "" {
		t.Fatal(diff)
	}
	if !p.outcomes[2].Dup || p.outcomes[2].Seq != 10 {
		t.Errorf("the second attempt of the call: %+v", p.outcomes[2])
	}
	if ev := p.events[0]; !ev.Recalled || ev.Body != "" || ev.Kind != impart.KindMsg {
		t.Errorf("the message that was recalled in its own call: %+v", ev)
	}
	if !p.keys[0].recalled || p.keys[1].recalled || len(p.recalled) != 0 {
		t.Errorf("keys %+v, stored ones recalled %+v", p.keys, p.recalled)
	}
	if ev := p.events[2]; ev.Kind != impart.KindRecall || ev.Target != 10 || ev.TargetMID != "m-1" || ev.Seq != 12 {
		t.Errorf("the recall: %+v", ev)
	}
}

func TestPlanRecallsAStoredMessageOnce(t *testing.T) {
	d := newDesk()
	d.stored[4] = &impart.Event{Conv: "c", Seq: 4, Kind: impart.KindMsg, MID: "m-4", Sender: "ben", CMID: "k", Body: "secret", Ext: []byte("{}"), At: 50}
	was := digest(d.stored[4])
	p := d.plan(takesBack("cy", "r0", 4), takesBack("ben", "r1", 4), takesBack("ana", "r2", 4))
	want := []impart.Code{impart.RecallRefused, "", impart.RecallRefused} // cy came at 5
	if diff := cmp.Diff(want, codes(p)); diff != "" {
		t.Fatal(diff)
	}
	if len(p.recalled) != 1 || p.recalled[0].was != was || p.recalled[0].event.Body != "" || p.recalled[0].event.Ext != nil {
		t.Errorf("%+v", p.recalled)
	}
}

// Where the dedup row was cleaned away the event decides, and the row comes back.
func TestPlanGoesByTheEventWhereTheRowIsGone(t *testing.T) {
	d := newDesk()
	d.logged[keyOf("ana", "k")] = &impart.Event{Conv: "c", Seq: 4, Kind: impart.KindMsg, MID: "m-4", Sender: "ana", CMID: "k", Body: "hi", At: 50}
	follows := says("ana", "l", "next")
	follows.Prev = "k"
	p := d.plan(says("ana", "k", "other"), says("ana", "k", "hi"), says("ana", "k", "hi"), follows)
	want := []impart.Code{impart.CMIDReused, "", "", ""}
	if diff := cmp.Diff(want, codes(p)); diff != "" {
		t.Fatal(diff)
	}
	for _, i := range []int{1, 2} {
		if diff := cmp.Diff(store.Appended{Seq: 4, MID: "m-4", At: 50, Dup: true, Epoch: 3}, p.outcomes[i]); diff != "" {
			t.Error(diff)
		}
	}
	if len(p.keys) != 2 || p.keys[0].seq != 4 || len(p.touched) != 1 || p.outcomes[3].Seq != 10 {
		t.Errorf("keys %+v, touched %v, %+v", p.keys, p.touched, p.outcomes[3])
	}
}

func TestTheSystemMayEverything(t *testing.T) {
	d := newDesk()
	d.stored[4] = &impart.Event{Conv: "c", Seq: 4, Kind: impart.KindMsg, MID: "m-4", Sender: "ben", CMID: "k", Body: "spam", At: 50}
	elsewhere := says(impart.System, "e", "hello?")
	elsewhere.Conv = "nowhere"
	p := d.plan(says(impart.System, "1", "maintenance"), takesBack(impart.System, "r", 4), elsewhere)
	if diff := cmp.Diff([]impart.Code{"", "", impart.NotMember}, codes(p)); diff != "" {
		t.Error(diff)
	}
}
