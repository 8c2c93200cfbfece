package logic_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/store/memstore"
)

func TestWhatIsSentIsInTheLog(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	sent := w.try(impart.Send{Sender: ana, Device: "phone", Conv: "c", CMID: "m1", Body: "hi", Ext: []byte(`{"re":1}`)})
	if sent.Err != nil || sent.Seq != 1 || sent.Dup || sent.MID == "" || sent.Epoch != 1 || sent.Conv != "c" || sent.At == 0 {
		t.Fatalf("sent %+v", sent)
	}
	events := w.sees(ben, "c")
	if len(events) != 1 {
		t.Fatalf("ben sees %d events", len(events))
	}
	ev := events[0]
	if ev.MID != sent.MID || ev.Sender != ana || ev.CMID != "m1" || ev.Body != "hi" || ev.Type != "text" ||
		string(ev.Ext) != `{"re":1}` || ev.Kind != impart.KindMsg || ev.At != sent.At {
		t.Fatalf("ben sees %+v", ev)
	}
}

func TestOneCMIDIsOneMessage(t *testing.T) { // case 12
	w, clock := clocked(t)
	w.group("c", ana, ben)
	send := w.message(ana, "c", "hi")
	original := w.try(send)
	w.bus.take(bus.Wake)
	same := func(when string, sent impart.Sent) {
		t.Helper()
		if sent.Err != nil || !sent.Dup || sent.Seq != original.Seq || sent.MID != original.MID || sent.At != original.At {
			t.Errorf("%s: %+v, want the answer to the first attempt, %+v", when, sent, original)
		}
	}
	same("in a row", w.try(send))
	for _, sent := range w.Send(w.ctx, []impart.Send{send, send}) {
		same("twice in one batch", sent)
	}
	var together sync.WaitGroup
	for range 16 {
		together.Go(func() { same("at once", w.try(send)) })
	}
	together.Wait()
	clock.turn(25 * time.Hour)
	same("a day later", w.try(send))
	if hits := w.counts("im_dedup_hit_total"); hits != 20 {
		t.Errorf("im_dedup_hit_total is %v after 20 repeats", hits)
	}
	if stored := w.counts("im_messages_stored_total"); stored != 1 {
		t.Errorf("im_messages_stored_total is %v", stored)
	}
	if wakes := w.bus.take(bus.Wake); len(wakes) != 0 {
		t.Errorf("a duplicate is no news: %+v", wakes)
	}
	again := startWorld(t, w.memory.Reopen(), func(cfg *logic.Config) { cfg.Now = clock.Now })
	same("after a restart", again.try(send))
	if n := len(again.sees(ben, "c")); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestFirstAttemptsAtOnceAreOneMessage(t *testing.T) { // case 14
	w := newWorld(t)
	w.group("c", ana, ben)
	send := w.message(ana, "c", "hi")
	answers := make(chan impart.Sent, 50)
	var together sync.WaitGroup
	for range 50 {
		together.Go(func() { answers <- w.try(send) })
	}
	together.Wait()
	close(answers)
	fresh := 0
	for sent := range answers {
		if sent.Err != nil || sent.Seq != 1 {
			t.Errorf("got %+v", sent)
		}
		if !sent.Dup {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d attempts were told that they were the first", fresh)
	}
}

func TestASenderWhoHasLeftStillGetsTheAnswer(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	send := w.message(ben, "c", "hi")
	original := w.try(send)
	if _, err := w.RemoveMember(w.ctx, "c", ben); err != nil {
		t.Fatal(err)
	}
	if sent := w.try(send); sent.Err != nil || !sent.Dup || sent.Seq != original.Seq {
		t.Errorf("the resend got %+v", sent)
	}
	wantCode(t, "a new message", w.try(w.message(ben, "c", "hi")).Err, impart.NotMember)
}

func TestAnotherContentUnderAKnownCMIDIsRefused(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	w.group("d", ana, ben)
	known := impart.Send{Sender: ana, Conv: "c", CMID: "m1", Body: "hi", Type: "text", Ext: []byte(`{"a":1}`)}
	if sent := w.try(known); sent.Err != nil {
		t.Fatal(sent.Err)
	}
	for what, change := range map[string]func(*impart.Send){
		"another body":            func(s *impart.Send) { s.Body = "hi " },
		"another type":            func(s *impart.Send) { s.Type = "Text" },
		"another ext":             func(s *impart.Send) { s.Ext = []byte(`{"a": 1}`) },
		"another ext, as long":    func(s *impart.Send) { s.Ext = []byte(`{"a":2}`) },
		"no ext":                  func(s *impart.Send) { s.Ext = nil },
		"another conversation":    func(s *impart.Send) { s.Conv = "d" },
		"text moved between them": func(s *impart.Send) { s.Type, s.Body = "texth", "i" },
	} {
		send := known
		change(&send)
		wantCode(t, what, w.try(send).Err, impart.CMIDReused)
	}
	_, err := w.Recall(w.ctx, impart.Recall{Sender: ana, Conv: "c", Seq: 1, CMID: "m1"})
	wantCode(t, "another kind", err, impart.CMIDReused)
	if _, err := w.Recall(w.ctx, impart.Recall{Sender: ana, Conv: "c", Seq: 1, CMID: "r1"}); err != nil {
		t.Fatal(err)
	}
	_, err = w.Recall(w.ctx, impart.Recall{Sender: ana, Conv: "c", Seq: 2, CMID: "r1"})
	wantCode(t, "another target", err, impart.CMIDReused)

	for what, change := range map[string]func(*impart.Send){
		"the default type":  func(s *impart.Send) { s.Type = "" },
		"another prev":      func(s *impart.Send) { s.Prev = "m0" },
		"another device":    func(s *impart.Send) { s.Device = "laptop" },
		"the current epoch": func(s *impart.Send) { s.Epoch = 1 },
	} {
		send := known
		change(&send)
		if sent := w.try(send); sent.Err != nil || !sent.Dup {
			t.Errorf("%s is the same content, got %+v", what, sent)
		}
	}
	theirs := known
	theirs.Sender = ben
	if sent := w.try(theirs); sent.Err != nil || sent.Dup || sent.Seq != 3 {
		t.Errorf("another user's cmid is another message, got %+v", sent)
	}
}

func TestOneBadSendFailsAlone(t *testing.T) { // D13
	w := newWorld(t, func(cfg *logic.Config) { cfg.MaxBody = 100 })
	w.group("c", ana, ben)
	taken := w.message(ana, "c", "taken")
	w.try(taken)
	bad := map[string]struct {
		change func(*impart.Send)
		code   impart.Code
	}{
		"no conversation":        {func(s *impart.Send) { s.Conv = "" }, impart.BadFrame},
		"a dot for conversation": {func(s *impart.Send) { s.Conv = ".." }, impart.BadFrame},
		"unknown conversation":   {func(s *impart.Send) { s.Conv = "nowhere" }, impart.NotMember},
		"stranger":               {func(s *impart.Send) { s.Sender = eve }, impart.NotMember},
		"no sender":              {func(s *impart.Send) { s.Sender = "" }, impart.BadFrame},
		"no cmid":                {func(s *impart.Send) { s.CMID = "" }, impart.BadFrame},
		"long cmid":              {func(s *impart.Send) { s.CMID = impart.CMID(strings.Repeat("x", 65)) }, impart.BadFrame},
		"control in cmid":        {func(s *impart.Send) { s.CMID = "a\nb" }, impart.BadFrame},
		"long device":            {func(s *impart.Send) { s.Device = impart.DeviceID(strings.Repeat("x", 129)) }, impart.BadFrame},
		"body over the limit":    {func(s *impart.Send) { s.Body = strings.Repeat("x", 101) }, impart.TooLarge},
		"NUL in the body":        {func(s *impart.Send) { s.Body = "a\x00b" }, impart.BadFrame},
		"body not UTF-8":         {func(s *impart.Send) { s.Body = "a\xffb" }, impart.BadFrame},
		"long type":              {func(s *impart.Send) { s.Type = strings.Repeat("x", 65) }, impart.TooLarge},
		"NUL in the type":        {func(s *impart.Send) { s.Type = "a\x00" }, impart.BadFrame},
		"ext not an object":      {func(s *impart.Send) { s.Ext = []byte(`[1]`) }, impart.BadFrame},
		"ext not JSON":           {func(s *impart.Send) { s.Ext = []byte(`{`) }, impart.BadFrame},
		"ext over the limit":     {func(s *impart.Send) { s.Ext = []byte(`{"a":"` + strings.Repeat("x", 4096) + `"}`) }, impart.TooLarge},
		"ext with NUL":           {func(s *impart.Send) { s.Ext = []byte(`{"a":"\u0000"}`) }, impart.BadFrame},
		"ext with half a pair":   {func(s *impart.Send) { s.Ext = []byte(`{"a":"\ud800"}`) }, impart.BadFrame},
		"reused cmid":            {func(s *impart.Send) { s.CMID = taken.CMID }, impart.CMIDReused},
		"prev not stored":        {func(s *impart.Send) { s.Prev = "never" }, impart.OutOfOrder},
		"long prev":              {func(s *impart.Send) { s.Prev = impart.CMID(strings.Repeat("x", 65)) }, impart.BadFrame},
		"another epoch":          {func(s *impart.Send) { s.Epoch = 7 }, impart.EpochChanged},
	}
	var batch []impart.Send
	var names []string
	for name, b := range bad {
		good, send := w.message(ana, "c", "good"), w.message(ana, "c", "bad")
		b.change(&send)
		batch = append(batch, good, send)
		names = append(names, name)
	}
	next := impart.Seq(2)
	for i, sent := range w.Send(w.ctx, batch) {
		if i%2 == 1 {
			wantCode(t, names[i/2], sent.Err, bad[names[i/2]].code)
			continue
		}
		if sent.Err != nil || sent.Seq != next {
			t.Errorf("the neighbour of %q got %+v, want seq %d", names[i/2], sent, next)
		}
		next++
	}
	for i, ev := range w.sees(ben, "c") {
		if ev.Seq != impart.Seq(i+1) {
			t.Fatalf("seq %d in place %d: there is a hole", ev.Seq, i+1)
		}
	}
}

func TestBodiesAtTheLimit(t *testing.T) { // case 39
	w := newWorld(t)
	w.group("c", ana, ben)
	for size, code := range map[int]impart.Code{
		0: "", 1: "", logic.DefaultMaxBody - 1: "", logic.DefaultMaxBody: "",
		logic.DefaultMaxBody + 1: impart.TooLarge, 16 << 20: impart.TooLarge,
	} {
		sent := w.try(w.message(ana, "c", strings.Repeat("x", size)))
		if impart.CodeOf(sent.Err) != code {
			t.Errorf("a body of %d bytes: %v, want %q", size, sent.Err, code)
		}
	}
	if sent := w.try(w.message(ana, "c", "and on")); sent.Err != nil {
		t.Error(sent.Err)
	}
}

// TestANodeWithALowerLimitKnowsWhatIsStored: the look-up of the cmid comes before
// every final refusal.
func TestANodeWithALowerLimitKnowsWhatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(memstore.Options{Shared: true})
		c := &cluster{t: t}
		roomy := c.start("roomy", st, func(cfg *logic.Config) { cfg.MaxBody = logic.HighestMaxBody })
		tight := c.start("tight", st.Node(), func(cfg *logic.Config) { cfg.MaxBody = 100 })
		defer roomy.close()
		defer tight.close()
		roomy.group("c", ana, ben)
		stored, never := roomy.message(ana, "c", strings.Repeat("x", 101)), roomy.message(ana, "c", strings.Repeat("x", logic.HighestMaxBody))
		first := roomy.try(stored)
		if first.Err != nil {
			t.Fatal(first.Err)
		}
		if again := tight.try(stored); again.Err != nil || !again.Dup || again.Seq != first.Seq || again.MID != first.MID {
			t.Errorf("resent to the other node it got %+v", again)
		}
		wantCode(t, "one that is not stored", tight.try(never).Err, impart.TooLarge)
		if n := len(tight.sees(ben, "c")); n != 1 {
			t.Errorf("%d events, want the one", n)
		}
		if sent := roomy.try(never); sent.Err != nil || sent.Dup {
			t.Errorf("refused there, it is sent here: %+v", sent)
		}
	})
}

func TestPrevKeepsTheOrderOfAnOutbox(t *testing.T) { // D14
	w := newWorld(t)
	w.group("c", ana, ben)
	first, second := w.message(ana, "c", "first"), w.message(ana, "c", "second")
	second.Prev = first.CMID
	wantCode(t, "second before first", w.try(second).Err, impart.OutOfOrder)
	sent := w.Send(w.ctx, []impart.Send{first, second})
	if sent[0].Err != nil || sent[1].Err != nil || sent[0].Seq != 1 || sent[1].Seq != 2 {
		t.Errorf("got %+v", sent)
	}
}

func TestASenderWhoIsTooFastWaits(t *testing.T) {
	w, clock := clocked(t, func(cfg *logic.Config) { cfg.SendRate, cfg.SendBurst = 2, 3 })
	w.group("c", ana, ben)
	for range 3 {
		w.say(ana, "c", "quick")
	}
	hasty := w.message(ana, "c", "too quick")
	sent := w.try(hasty)
	wantCode(t, "the fourth at once", sent.Err, impart.RateLimited)
	if wait := impart.AsError(sent.Err).RetryAfter; wait != 500*time.Millisecond {
		t.Errorf("told to wait %v", wait)
	}
	_, err := w.Recall(w.ctx, impart.Recall{Sender: ana, Conv: "c", Seq: 1, CMID: "r1"})
	wantCode(t, "a recall from the same budget", err, impart.RateLimited)
	wantCode(t, "a typing note from the same budget", w.Typing(w.ctx, ana, "c"), impart.RateLimited)
	w.say(ben, "c", "has a budget of his own")
	for range 10 {
		w.say(impart.System, "c", "has none")
	}
	clock.turn(499 * time.Millisecond)
	wantCode(t, "too early", w.try(hasty).Err, impart.RateLimited)
	clock.turn(time.Millisecond)
	if sent := w.try(hasty); sent.Err != nil || sent.Dup {
		t.Errorf("after the wait: %+v", sent)
	}
}

func TestWithoutALimitNobodyWaits(t *testing.T) {
	w := newWorld(t, func(cfg *logic.Config) { cfg.SendRate, cfg.SendBurst = -1, 1 })
	w.group("c", ana, ben)
	w.sayMany(ana, "c", 100)
}

func TestIdsOfEventsRise(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	last := impart.MID("")
	for range 500 {
		sent := w.say(ana, "c", "hi")
		if sent.MID <= last {
			t.Fatalf("%s comes after %s", sent.MID, last)
		}
		last = sent.MID
	}
}
