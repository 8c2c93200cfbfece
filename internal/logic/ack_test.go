package logic_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
)

func TestTheCursorOnlyRisesAndNeverPassesHead(t *testing.T) { // case 20, D4
	w := newWorld(t)
	w.group("c", ana, ben)
	w.group("not ben's", ana, cy)
	w.sayMany(ana, "c", 7)
	w.say(ana, "not ben's", "hi")
	session := w.device(ben, "phone")
	if at := w.ack(session, "c", 5); at != 5 {
		t.Errorf("acked to %d", at)
	}
	if at := w.ack(session, "c", 1); at != 5 {
		t.Errorf("an older ack answers %d, want the merged cursor", at)
	}
	for what, c := range map[string]struct {
		item impart.AckItem
		code impart.Code
	}{
		"beyond head":          {impart.AckItem{Conv: "c", Seq: 107}, impart.CursorAhead},
		"negative":             {impart.AckItem{Conv: "c", Seq: -1}, impart.CursorAhead},
		"overflowing":          {impart.AckItem{Conv: "c", Seq: math.MaxInt64}, impart.CursorAhead},
		"another conversation": {impart.AckItem{Conv: "not ben's", Seq: 1}, impart.NotMember},
		"garbled":              {impart.AckItem{Conv: "c\x00", Seq: 1}, impart.BadFrame},
	} {
		acked := w.Ack(w.ctx, impart.Ack{Session: session, Items: []impart.AckItem{c.item, {Conv: "c", Seq: 2}}})
		wantCode(t, what, acked[0].Err, c.code)
		if acked[1].Err != nil || acked[1].Delivered != 5 || acked[1].Conv != "c" {
			t.Errorf("%s: its neighbour got %+v", what, acked[1])
		}
	}
	wantCode(t, "another user's device", w.Ack(w.ctx, impart.Ack{
		Session: impart.Session{User: eve, Device: "phone", Install: 1}, Items: []impart.AckItem{{Conv: "c", Seq: 7}},
	})[0].Err, impart.StaleInstall)
	if lags, err := w.Lags(w.ctx, []impart.LagQuery{{Session: session, Conv: "c"}}); err != nil || lags[0] != (impart.Lag{Head: 7, Delivered: 5}) {
		t.Errorf("the cursor is %+v: %v", lags, err)
	}
}

func TestAnAckThatIsRefusedAsAWhole(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	w.sayMany(ana, "c", 3)
	old := w.device(ben, "phone")
	many := make([]impart.AckItem, impart.MaxLimit+1)
	for i := range many {
		many[i] = impart.AckItem{Conv: "c", Seq: 1}
	}
	two := []impart.AckItem{{Conv: "c", Seq: 1}, {Conv: "c", Seq: 2}}
	fresh := w.hello(impart.Hello{Identity: impart.Identity{User: ben}, Device: "phone", Install: "second"}).Session
	for what, c := range map[string]struct {
		ack  impart.Ack
		code impart.Code
	}{
		"too many":        {impart.Ack{Session: fresh, Items: many}, impart.TooLarge},
		"no device":       {impart.Ack{Session: impart.Session{User: ben}, Items: two}, impart.BadFrame},
		"negative n":      {impart.Ack{Session: fresh, Items: two, N: ptr(int64(-1))}, impart.BadFrame},
		"older install":   {impart.Ack{Session: old, Items: two}, impart.StaleInstall},
		"another epoch":   {impart.Ack{Session: fresh, Items: two, Epoch: 2}, impart.EpochChanged},
		"unknown devices": {impart.Ack{Session: impart.Session{User: ben, Device: "x", Install: 1}, Items: two}, impart.StaleInstall},
	} {
		acked := w.Ack(w.ctx, c.ack)
		if len(acked) != len(c.ack.Items) {
			t.Fatalf("%s: %d results", what, len(acked))
		}
		for _, result := range acked {
			wantCode(t, what, result.Err, c.code)
			if result.Conv != "c" {
				t.Errorf("%s: the result names %q", what, result.Conv)
			}
		}
	}
	if acked := w.Ack(w.ctx, impart.Ack{Session: fresh, Items: many[:impart.MaxLimit]}); acked[impart.MaxLimit-1].Err != nil {
		t.Error(acked[impart.MaxLimit-1].Err)
	}
	if acked := w.Ack(w.ctx, impart.Ack{Session: fresh}); len(acked) != 0 {
		t.Errorf("no items, %d results", len(acked))
	}
}

// A phone says hello with the store of a backup, while an ack of what it had
// stored since lies unread in its older connection (D9).
func TestAnAckOfAnOlderConnectionMovesNothing(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	w.sayMany(ana, "c", 5)
	hello := impart.Hello{Identity: impart.Identity{User: ben}, Device: "phone", Install: "one", N: ptr(int64(3))}
	older := w.hello(hello).Session
	w.ack(older, "c", 2)
	newer := w.hello(hello).Session
	w.bus.take(0)
	late := impart.Ack{Session: older, N: ptr(int64(8)), Items: []impart.AckItem{{Conv: "c", Seq: 5}, {Conv: "c", Seq: 4}}}
	for _, acked := range w.Ack(w.ctx, late) {
		wantCode(t, "an ack of the older connection", acked.Err, impart.StaleInstall)
	}
	if got := w.bus.take(bus.Receipt); len(got) != 0 {
		t.Errorf("it is told as a receipt: %+v", got)
	}
	if lags, err := w.Lags(w.ctx, []impart.LagQuery{{Session: newer, Conv: "c"}}); err != nil || lags[0].Delivered != 2 {
		t.Errorf("the cursor is %+v, want 2: %v", lags, err)
	}
	if welcome := w.hello(hello); welcome.Fresh || welcome.N != 3 {
		t.Errorf("the next hello of that store gets %+v, want the n that it comes with", welcome)
	} else if at := w.ack(welcome.Session, "c", 3); at != 3 {
		t.Errorf("the newest connection acked to %d", at)
	}
	script, err := w.Visit(w.ctx, hello.Identity, "phone", "one")
	if err != nil {
		t.Fatal(err)
	}
	if at := w.ack(script, "c", 4); at != 4 {
		t.Errorf("over HTTP, acked to %d", at)
	}
}

func TestAMovedCursorIsAReceipt(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	w.group("d", ana, ben)
	w.sayMany(ana, "c", 9)
	w.sayMany(ana, "d", 2)
	phone, laptop := w.device(ben, "phone"), w.device(ben, "laptop")
	if _, err := w.Read(w.ctx, impart.Read{Session: laptop, Conv: "c", Seq: 2}); err != nil {
		t.Fatal(err)
	}
	w.bus.take(0)
	acked := w.Ack(w.ctx, impart.Ack{Session: phone, Items: []impart.AckItem{
		{Conv: "c", Seq: 3}, {Conv: "d", Seq: 2}, {Conv: "c", Seq: 5}, {Conv: "c", Seq: 99},
	}})
	if acked[0].Delivered != 5 || acked[1].Delivered != 2 || acked[2].Delivered != 5 {
		t.Errorf("acked %+v", acked)
	}
	wantCode(t, "the last one", acked[3].Err, impart.CursorAhead)
	receipts := w.bus.take(bus.Receipt)
	want := []bus.Message{
		{Kind: bus.Receipt, Conv: "c", User: ben, Device: "phone", Session: phone.Number, Delivered: 5, Read: 2, Epoch: 1},
		{Kind: bus.Receipt, Conv: "d", User: ben, Device: "phone", Session: phone.Number, Delivered: 2, Epoch: 1},
	}
	if fmt.Sprint(receipts) != fmt.Sprint(want) {
		t.Errorf("receipts %+v, want %+v", receipts, want)
	}
	w.ack(phone, "c", 5)
	w.ack(phone, "c", 1)
	if receipts := w.bus.take(bus.Receipt); len(receipts) != 0 {
		t.Errorf("nothing moved, and yet %+v", receipts)
	}
	w.ack(laptop, "c", 4)
	if receipts := w.bus.take(bus.Receipt); len(receipts) != 0 {
		t.Errorf("the phone is further, and yet %+v", receipts)
	}
	w.ack(laptop, "c", 6)
	if receipts := w.bus.take(bus.Receipt); len(receipts) != 1 || receipts[0].Delivered != 6 || receipts[0].Device != "laptop" {
		t.Errorf("receipts %+v", receipts)
	}
}

func TestAReceiptComesAfterTheCommit(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	w.say(ana, "c", "hi")
	session := w.device(ben, "phone")
	w.bus.take(0)
	held, release := make(chan struct{}), make(chan struct{})
	w.memory.OnCommit(func() error { close(held); <-release; return fmt.Errorf("rolled back") }, nil)
	done := make(chan impart.Acked, 1)
	go func() {
		done <- w.Ack(w.ctx, impart.Ack{Session: session, Items: []impart.AckItem{{Conv: "c", Seq: 1}}})[0]
	}()
	<-held
	if early := w.bus.take(bus.Receipt); len(early) != 0 {
		t.Errorf("a receipt before the commit: %+v", early)
	}
	w.memory.OnCommit(nil, nil)
	close(release)
	wantCode(t, "an ack that was rolled back", (<-done).Err, impart.Unavailable)
	if receipts := w.bus.take(bus.Receipt); len(receipts) != 0 {
		t.Errorf("a receipt for nothing: %+v", receipts)
	}
	w.ack(session, "c", 1)
	if receipts := w.bus.take(bus.Receipt); len(receipts) != 1 {
		t.Errorf("receipts %+v", receipts)
	}
}

func TestBigConversationsSendNoReceipts(t *testing.T) {
	w := newWorld(t)
	var members []impart.UserID
	for i := range impart.MaxReceipts {
		members = append(members, impart.UserID(fmt.Sprint("u", i)))
	}
	w.group("c", members...)
	w.sayMany(members[0], "c", 4)
	session := w.device(members[1], "phone")
	w.bus.take(0)
	moves := func(seq impart.Seq) int {
		w.ack(session, "c", seq)
		if _, err := w.Read(w.ctx, impart.Read{Session: session, Conv: "c", Seq: seq}); err != nil {
			t.Fatal(err)
		}
		return len(w.bus.take(bus.Receipt))
	}
	if n := moves(1); n != 2 {
		t.Errorf("with 50 members %d receipts, want 2", n)
	}
	if _, err := w.PutMember(w.ctx, "c", impart.Member{User: "one more"}); err != nil {
		t.Fatal(err)
	}
	if n := moves(2); n != 0 {
		t.Errorf("with 51 members %d receipts", n)
	}
	if _, err := w.RemoveMember(w.ctx, "c", "one more"); err != nil {
		t.Fatal(err)
	}
	if n := moves(3); n != 2 {
		t.Errorf("former members do not count: %d receipts, want 2", n)
	}
}

func TestReadingIsAReceipt(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	w.sayMany(ana, "c", 5)
	session := w.device(ben, "phone")
	w.ack(session, "c", 4)
	w.bus.take(0)
	read := func(r impart.Read) (impart.Seq, error) { return w.Read(w.ctx, r) }
	if at, err := read(impart.Read{Session: session, Conv: "c", Seq: 3}); err != nil || at != 3 {
		t.Fatalf("read %d: %v", at, err)
	}
	want := bus.Message{Kind: bus.Receipt, Conv: "c", User: ben, Device: "phone", Session: session.Number, Delivered: 4, Read: 3, Epoch: 1}
	if receipts := w.bus.take(bus.Receipt); len(receipts) != 1 || receipts[0] != want {
		t.Errorf("receipts %+v, want %+v", receipts, want)
	}
	if at, err := read(impart.Read{Session: session, Conv: "c", Seq: 2}); err != nil || at != 3 {
		t.Errorf("an older read: %d, %v", at, err)
	}
	if receipts := w.bus.take(bus.Receipt); len(receipts) != 0 {
		t.Errorf("nothing moved, and yet %+v", receipts)
	}
	for what, c := range map[string]struct {
		read impart.Read
		code impart.Code
	}{
		"beyond head":   {impart.Read{Session: session, Conv: "c", Seq: 6}, impart.CursorAhead},
		"negative":      {impart.Read{Session: session, Conv: "c", Seq: -1}, impart.CursorAhead},
		"a stranger":    {impart.Read{Session: impart.Session{User: eve}, Conv: "c", Seq: 1}, impart.NotMember},
		"another epoch": {impart.Read{Session: session, Conv: "c", Seq: 4, Epoch: 2}, impart.EpochChanged},
		"no user":       {impart.Read{Conv: "c", Seq: 1}, impart.BadFrame},
	} {
		_, err := read(c.read)
		wantCode(t, what, err, c.code)
	}
	if at, err := read(impart.Read{Session: impart.Session{User: ben}, Conv: "c", Seq: 5}); err != nil || at != 5 {
		t.Errorf("reading needs no device: %d, %v", at, err)
	}
}

func TestWhoHasTheMessage(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben, cy)
	w.sayMany(ana, "c", 3)
	phone := w.device(ben, "phone")
	w.device(ben, "laptop")
	w.ack(phone, "c", 2)
	if _, err := w.Read(w.ctx, impart.Read{Session: phone, Conv: "c", Seq: 1}); err != nil {
		t.Fatal(err)
	}
	report, err := w.Who(w.ctx, impart.Who{User: ana, Conv: "c", Seq: 2, Limit: 2})
	want := []impart.UserReport{{User: ana}, {User: ben, Delivered: 1, Devices: 2}}
	if err != nil || fmt.Sprint(report.Users) != fmt.Sprint(want) || !report.More {
		t.Errorf("%+v: %v", report, err)
	}
	report, err = w.Who(w.ctx, impart.Who{User: ana, Conv: "c", Seq: 1, After: ana})
	want = []impart.UserReport{{User: ben, Delivered: 1, Devices: 2, Read: true}, {User: cy}}
	if err != nil || fmt.Sprint(report.Users) != fmt.Sprint(want) || report.More {
		t.Errorf("%+v: %v", report, err)
	}
	for what, c := range map[string]struct {
		who  impart.Who
		code impart.Code
	}{
		"beyond head": {impart.Who{User: ana, Conv: "c", Seq: 4}, impart.CursorAhead},
		"a stranger":  {impart.Who{User: eve, Conv: "c", Seq: 1}, impart.NotMember},
		"a limit":     {impart.Who{User: ana, Conv: "c", Seq: 1, Limit: 2000}, impart.BadFrame},
		"no user":     {impart.Who{Conv: "c", Seq: 1}, impart.BadFrame},
	} {
		_, err := w.Who(w.ctx, c.who)
		wantCode(t, what, err, c.code)
	}
}

func TestTypingNeedsAnOpenPeriod(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	w.bus.take(0)
	if err := w.Typing(w.ctx, ben, "c"); err != nil {
		t.Fatal(err)
	}
	if notes := w.bus.take(bus.Typing); len(notes) != 1 || notes[0] != (bus.Message{Kind: bus.Typing, Conv: "c", User: ben}) {
		t.Errorf("notes %+v", notes)
	}
	if _, err := w.RemoveMember(w.ctx, "c", ben); err != nil {
		t.Fatal(err)
	}
	w.bus.take(0)
	wantCode(t, "a former member", w.Typing(w.ctx, ben, "c"), impart.NotMember)
	wantCode(t, "a stranger", w.Typing(w.ctx, eve, "c"), impart.NotMember)
	wantCode(t, "nowhere", w.Typing(w.ctx, ana, "nowhere"), impart.NotMember)
	wantCode(t, "no conversation", w.Typing(w.ctx, ana, ""), impart.BadFrame)
	if notes := w.bus.take(bus.Typing); len(notes) != 0 {
		t.Errorf("notes %+v", notes)
	}
	if _, err := w.PutMember(w.ctx, "c", impart.Member{User: ben}); err != nil {
		t.Fatal(err)
	}
	if err := w.Typing(w.ctx, ben, "c"); err != nil {
		t.Errorf("back again: %v", err)
	}
}
