package logic_test

import (
	"strings"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

func TestSyncReadsForwardsAndBackwards(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	w.sayMany(ana, "c", 250)
	page, err := w.Sync(w.ctx, impart.Sync{User: ben, Conv: "c", After: ptr(impart.Seq(0))})
	if err != nil || len(page.Events) != impart.DefaultLimit || page.Through != 100 || page.Head != 250 || !page.More || page.Epoch != 1 {
		t.Fatalf("%d events, through %d, head %d, more %v: %v", len(page.Events), page.Through, page.Head, page.More, err)
	}
	page, err = w.Sync(w.ctx, impart.Sync{User: ben, Conv: "c", Before: ptr(impart.Seq(251)), Limit: 7})
	if err != nil || len(page.Events) != 7 || page.Events[0].Seq != 250 || page.Events[6].Seq != 244 || page.Through != 0 || !page.More {
		t.Fatalf("%+v: %v", page, err)
	}
}

func TestSyncRefusals(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	w.sayMany(ana, "c", 3)
	seq := func(n impart.Seq) *impart.Seq { return &n }
	for what, c := range map[string]struct {
		sync impart.Sync
		code impart.Code
	}{
		"neither after nor before": {impart.Sync{User: ana, Conv: "c"}, impart.BadFrame},
		"both":                     {impart.Sync{User: ana, Conv: "c", After: seq(0), Before: seq(1)}, impart.BadFrame},
		"limit below":              {impart.Sync{User: ana, Conv: "c", After: seq(0), Limit: -1}, impart.BadFrame},
		"limit above":              {impart.Sync{User: ana, Conv: "c", After: seq(0), Limit: 1001}, impart.BadFrame},
		"no conversation":          {impart.Sync{User: ana, After: seq(0)}, impart.BadFrame},
		"a NUL in after_mid":       {impart.Sync{User: ana, Conv: "c", After: seq(0), AfterMID: "\x00"}, impart.BadFrame},
		"after beyond head":        {impart.Sync{User: ana, Conv: "c", After: seq(4)}, impart.CursorAhead},
		"after negative":           {impart.Sync{User: ana, Conv: "c", After: seq(-1)}, impart.CursorAhead},
		"before beyond head + 1":   {impart.Sync{User: ana, Conv: "c", Before: seq(5)}, impart.CursorAhead},
		"before negative":          {impart.Sync{User: ana, Conv: "c", Before: seq(-1)}, impart.CursorAhead},
		"a stranger":               {impart.Sync{User: eve, Conv: "c", After: seq(0)}, impart.NotMember},
		"no such conversation":     {impart.Sync{User: ana, Conv: "nowhere", After: seq(0)}, impart.NotMember},
		"another epoch":            {impart.Sync{User: ana, Conv: "c", After: seq(0), Epoch: 2}, impart.EpochChanged},
		"another mid there":        {impart.Sync{User: ana, Conv: "c", After: seq(2), AfterMID: "x"}, impart.EpochChanged},
	} {
		_, err := w.Sync(w.ctx, c.sync)
		wantCode(t, what, err, c.code)
		if c.code == impart.EpochChanged && impart.AsError(err).Epoch != 1 {
			t.Errorf("%s: the refusal carries epoch %d", what, impart.AsError(err).Epoch)
		}
	}
	limits := []int{1, 1000}
	for _, limit := range limits {
		if _, err := w.Sync(w.ctx, impart.Sync{User: ana, Conv: "c", After: seq(0), Limit: limit}); err != nil {
			t.Error(err)
		}
	}
}

func TestNobodyTellsNotYoursFromNotThere(t *testing.T) { // security.md, kind 6
	w := newWorld(t)
	w.group("c", ana, ben)
	w.say(ana, "c", "hi")
	session := w.device(eve, "phone")
	ask := func(conv impart.ConvID) map[string]error {
		after := impart.Seq(0)
		_, syncErr := w.Sync(w.ctx, impart.Sync{User: eve, Conv: conv, After: &after})
		_, recallErr := w.Recall(w.ctx, impart.Recall{Sender: eve, Conv: conv, Seq: 1, CMID: "r"})
		_, readErr := w.Read(w.ctx, impart.Read{Session: session, Conv: conv, Seq: 1})
		_, whoErr := w.Who(w.ctx, impart.Who{User: eve, Conv: conv, Seq: 1})
		return map[string]error{
			"send": w.try(impart.Send{Sender: eve, Conv: conv, CMID: "m"}).Err, "sync": syncErr, "recall": recallErr, "read": readErr,
			"who": whoErr, "typing": w.Typing(w.ctx, eve, conv),
			"ack": w.Ack(w.ctx, impart.Ack{Session: session, Items: []impart.AckItem{{Conv: conv, Seq: 1}}})[0].Err,
		}
	}
	theirs, nowhere := ask("c"), ask("nowhere")
	for what, err := range theirs {
		wantCode(t, what, err, impart.NotMember)
		wantCode(t, what+" nowhere", nowhere[what], impart.NotMember)
		if a, b := impart.AsError(err).Message, impart.AsError(nowhere[what]).Message; strings.ReplaceAll(a, `"c"`, "") != strings.ReplaceAll(b, `"nowhere"`, "") {
			t.Errorf("%s: %q against %q", what, a, b)
		}
	}
}

func TestPagesFitIntoAFrame(t *testing.T) { // case 39
	w := newWorld(t)
	w.group("c", ana, ben)
	worst := strings.Repeat("\x01", 64<<10) // six bytes each in JSON
	for range 8 {
		w.say(ana, "c", worst)
	}
	session := w.device(ben, "phone")
	for after := impart.Seq(0); after < 8; {
		page, err := w.Sync(w.ctx, impart.Sync{User: ben, Conv: "c", After: &after, Limit: 1000})
		if err != nil || len(page.Events) == 0 {
			t.Fatalf("%d events: %v", len(page.Events), err)
		}
		pulled, err := w.Pull(w.ctx, impart.Pull{Session: session, Limit: 1000})
		if err != nil || len(pulled.Convs) != 1 || len(pulled.Convs[0].Events) == 0 {
			t.Fatalf("pulled %d conversations: %v", len(pulled.Convs), err)
		}
		if got := sizeOf(page.Events); got > impart.MaxPage {
			t.Errorf("a page of %d bytes", got)
		}
		if got := sizeOf(pulled.Convs[0].Events); got > impart.MaxPage {
			t.Errorf("a pull of %d bytes", got)
		}
		if page.More != (page.Through < 8) || pulled.More != (pulled.Convs[0].Through < 8) {
			t.Errorf("through %d says more %v, pull through %d says %v", page.Through, page.More, pulled.Convs[0].Through, pulled.More)
		}
		after = page.Through
		w.ack(session, "c", pulled.Convs[0].Through)
	}
}

func sizeOf(events []impart.Event) int {
	n := 0
	for i := range events {
		n += store.Size(&events[i])
	}
	return n
}

func TestPeriodsDecideWhatIsSeen(t *testing.T) { // case 36, D8
	w := newWorld(t)
	w.group("c", ana)
	until := func(head int) {
		for n := len(w.sees(ana, "c")); n < head; n++ {
			w.say(ana, "c", "hi")
		}
	}
	until(49)
	if _, err := w.PutMember(w.ctx, "c", impart.Member{User: ben}); err != nil { // joins at 50
		t.Fatal(err)
	}
	until(79)
	if _, err := w.RemoveMember(w.ctx, "c", ben); err != nil { // leaves at 80
		t.Fatal(err)
	}
	until(119)
	if _, err := w.PutMember(w.ctx, "c", impart.Member{User: ben}); err != nil { // back at 120
		t.Fatal(err)
	}
	until(130)
	visible := func(seq impart.Seq) bool { return seq >= 50 && seq <= 80 || seq >= 120 }
	want := impart.Seq(0)
	for _, ev := range w.sees(ben, "c") {
		for want++; !visible(want); want++ {
		}
		if ev.Seq != want {
			t.Fatalf("ben sees %d, want %d", ev.Seq, want)
		}
	}
	if want != 130 {
		t.Errorf("ben sees up to %d", want)
	}
	session := w.device(ben, "phone")
	var got []impart.Event
	for {
		pulled, err := w.Pull(w.ctx, impart.Pull{Session: session, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pulled.Convs {
			got = append(got, page.Events...)
			w.ack(session, page.Conv, page.Through)
		}
		if !pulled.More {
			break
		}
	}
	if len(got) != 31+11 || got[0].Seq != 50 || got[30].Seq != 80 || got[31].Seq != 120 {
		t.Errorf("pulled %d events", len(got))
	}
	if delivered := w.ack(session, "c", 0); delivered != 130 {
		t.Errorf("the cursor stands at %d", delivered)
	}
	part, err := w.Range(w.ctx, "c", 1, 130)
	if err != nil {
		t.Fatal(err)
	}
	for i := range part.Events {
		if ev := &part.Events[i]; part.Audience.Members[ben].Sees(ev) != visible(ev.Seq) {
			t.Errorf("a push of %d would go to ben: %v", ev.Seq, !visible(ev.Seq))
		}
	}
}

func TestUnreadCountsOthersMessagesOnly(t *testing.T) { // case 44
	w := newWorld(t)
	w.group("c", ana, ben)
	phone, laptop := w.device(ana, "phone"), w.device(ana, "laptop")
	unread := func(session impart.Session) int {
		page, err := w.Convs(w.ctx, impart.Convs{Session: session})
		if err != nil || len(page.Convs) != 1 {
			t.Fatalf("%+v: %v", page, err)
		}
		return page.Convs[0].Unread
	}
	read := func(session impart.Session, seq impart.Seq) impart.Seq {
		at, err := w.Read(w.ctx, impart.Read{Session: session, Conv: "c", Seq: seq})
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	w.sayMany(ben, "c", 5)
	w.sayMany(ana, "c", 3)
	w.sayMany(ben, "c", 2)
	for what, c := range map[string]struct{ got, want int }{"phone": {unread(phone), 7}, "laptop": {unread(laptop), 7}} {
		if c.got != c.want {
			t.Errorf("%s counts %d unread, want %d", what, c.got, c.want)
		}
	}
	if _, err := w.Recall(w.ctx, impart.Recall{Sender: ben, Conv: "c", Seq: 9, CMID: "r"}); err != nil { // an event, 11, and one message less
		t.Fatal(err)
	}
	if n := unread(phone); n != 6 {
		t.Errorf("after a recall %d unread, want 6", n)
	}
	if at := read(phone, 6); at != 6 {
		t.Errorf("read to %d", at)
	}
	if at := read(laptop, 2); at != 6 {
		t.Errorf("an older read moved the cursor to %d", at)
	}
	if a, b := unread(phone), unread(laptop); a != 1 || b != 1 {
		t.Errorf("unread is %d and %d, want 1 on both", a, b)
	}
	read(laptop, 11)
	read(phone, 11)
	if a, b := unread(phone), unread(laptop); a != 0 || b != 0 {
		t.Errorf("unread is %d and %d, want 0 on both", a, b)
	}
}

func TestConvsPageThroughEveryConversation(t *testing.T) {
	w := newWorld(t)
	for _, conv := range []impart.ConvID{"b", "a", "d", "c"} {
		w.group(conv, ana, ben)
	}
	w.group("not hers", ben, cy)
	session := w.device(ana, "phone")
	var seen []string
	for after := impart.ConvID(""); ; {
		page, err := w.Convs(w.ctx, impart.Convs{Session: session, After: after, Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, conv := range page.Convs {
			seen = append(seen, string(conv.Conv))
			after = conv.Conv
		}
		if !page.More {
			break
		}
	}
	if got := strings.Join(seen, " "); got != "a b c d" {
		t.Errorf("ana has %s", got)
	}
	for what, bad := range map[string]impart.Convs{
		"limit": {Session: session, Limit: 1001}, "after": {Session: session, After: "\x00"}, "no user": {},
	} {
		_, err := w.Convs(w.ctx, bad)
		wantCode(t, what, err, impart.BadFrame)
	}
}
