package chat

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

func TestLinesAreStored(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana")
		out, err := ana.pipe("one\n\ntwo\n//three\n", time.Minute)
		must(t, err)
		has(t, out, "stored c-ab 1 ", "stored c-ab 2 ", "stored c-ab 3 ")
		if got := w.log(); !slices.Equal(got, []string{"one", "two", "/three"}) {
			t.Errorf("the log is %q", got)
		}
	})
}

func TestWhatIsNotStoredInTimeIsSentByTheNextRun(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana")
		ana.link.Off()
		began := time.Now()
		out, err := ana.pipe("one\ntwo\n", 10*time.Second)
		if err == nil || out != "" {
			t.Fatalf("offline: %v, %q", err, out)
		}
		has(t, err.Error(), "not stored within 10s (", "2 items stay in the outbox, in "+ana.cfg.Client.Store, "the next impart chat on it sends them")
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
		ana.link.On()
		out, err = ana.pipe("three\n", time.Minute)
		must(t, err)
		has(t, out, "stored c-ab 1 ", "stored c-ab 2 ", "stored c-ab 3 ")
		if got := w.log(); !slices.Equal(got, []string{"one", "two", "three"}) {
			t.Errorf("the log is %q", got)
		}
	})
}

func TestARefusalIsAFailureOfItsOwn(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana")
		out, err := ana.pipe("one\n"+strings.Repeat("x", 70_000)+"\ntwo\n", time.Minute)
		if err == nil || !strings.Contains(err.Error(), "1 refused") {
			t.Errorf("the error is %v", err)
		}
		has(t, out, "stored c-ab 1 ")
		has(t, out, "refused c-ab #", "TOO_LARGE: ", "shorten it")
		if got := w.log(); !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("the log is %.40q", got)
		}
		// It stays until somebody settles it.
		out, err = ana.pipe("/retry\n", time.Minute)
		if err == nil {
			t.Errorf("sent again as it was: %q", out)
		}
		out, err = ana.pipe("/dismiss\n", time.Minute)
		must(t, err)
		has(t, out, "forgotten")
		if _, err = ana.pipe("/dismiss\n", time.Minute); err == nil {
			t.Error("dismissed twice")
		}
	})
}

// Of several, the newest is taken, and the answer says which.
func TestTheNewestIsTakenAndNamed(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana")
		long := strings.Repeat("x", 70_000)
		out, err := ana.pipe("1"+long+"\n2"+long+"\n3"+long+"\n", time.Minute)
		if err == nil || !strings.Contains(err.Error(), "3 refused") {
			t.Fatalf("the error is %v", err)
		}
		var refs []string
		for line := range strings.Lines(out) {
			refs = append(refs, strings.TrimSuffix(strings.Fields(line)[2], ":"))
		}
		out, err = ana.pipe("/retry\n", time.Minute)
		if err == nil {
			t.Error("what is refused again is no failure")
		}
		has(t, out, refs[2]+" (3xxx", "…) is sent again; 2 more were refused\n")
		out, err = ana.pipe("/dismiss\n/dismiss "+refs[0]+"\n/dismiss\n", time.Minute)
		must(t, err)
		has(t, out, " (3xxx", " is forgotten; 2 more were refused\n", refs[0]+" (1xxx", " is forgotten\n", refs[1]+" (2xxx", " is forgotten\n")
		ana.link.Off()
		out, _ = ana.pipe("one\ntwo\n/cancel\n", time.Second)
		has(t, out, " (two) was taken back before it was stored; 1 more waits\n")
		out, err = ana.pipe("/nothing\n/cancel\n", time.Second)
		has(t, out, " (one) was taken back before it was stored\n")
		if err == nil || err.Error() != "1 line not taken" {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestLinesThatAreNoGoodDoNotStopTheOthers(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		out, err := w.person("u-ana").pipe("/etc/passwd\na\x00b\n/open c-ab\n/recall 9\n/read 9\none\n", time.Minute)
		if err == nil || !strings.Contains(err.Error(), "5 lines not taken") {
			t.Errorf("the error is %v", err)
		}
		has(t, out, "no order /etc/passwd", "BAD_FRAME", "is for the screen", "no message 9", "nothing of this number")
		if got := w.log(); !slices.Equal(got, []string{"one"}) {
			t.Errorf("the log is %q", got)
		}
	})
}

func TestAScriptDoesNotWaitForWhatCannotCome(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana")
		ana.cfg.Client.Token = client.StaticToken("wrong")
		began := time.Now()
		_, err := ana.pipe("one\n", time.Hour)
		if err == nil || time.Since(began) > time.Minute {
			t.Fatalf("with a wrong token: %v, after %v", err, time.Since(began))
		}
		has(t, err.Error(), "the server refuses the token", "1 item stays in the outbox")
		ana.cfg.Client.Token = client.StaticToken("dev:u-ben")
		if _, err = ana.pipe("two\n", time.Hour); err == nil || !strings.Contains(err.Error(), `"u-ben"`) {
			t.Errorf("with another's token: %v", err)
		}
		if got := w.log(); len(got) != 0 {
			t.Errorf("the log is %q", got)
		}
	})
}

func TestOneStoreOneChat(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana")
		ana.start()
		_, err := Open(t.Context(), ana.cfg)
		if !errors.Is(err, client.ErrInUse) {
			t.Fatalf("a second chat: %v", err)
		}
		has(t, err.Error(), ana.cfg.Client.Store, "leave the other impart chat", "--device")
	})
}

func TestCancelBeforeAndAfter(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana")
		ana.link.Off()
		out, err := ana.pipe("one\ntwo\n/cancel\n", time.Second)
		if err == nil || !strings.Contains(err.Error(), "1 item stays") {
			t.Errorf("the error is %v", err)
		}
		has(t, out, "taken back before it was stored")
		ana.link.On()
		out, err = ana.pipe("", time.Minute) // what is left over is waited for as well
		must(t, err)
		has(t, out, "stored c-ab 1 ")
		out, err = ana.pipe("/recall 1\n/who 1\n", time.Minute)
		must(t, err)
		has(t, out, "u-ana: on ", "u-ben: on 0 of 0 devices, not read")
		if got := w.log(); !slices.Equal(got, []string{"", ""}) {
			t.Errorf("the log is %q", got)
		}
	})
}

func TestTheOutboxIsListedWithoutANetwork(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana")
		ana.link.Off()
		_, _ = ana.pipe("one\x1b[2J\n", time.Second)
		ana.link.On()
		ana.cfg = ana.cfg.Offline()
		c := ana.start()
		var out bytes.Buffer
		must(t, c.ListOutbox(t.Context(), &Lines{Out: &out, Err: &out}))
		has(t, out.String(), "#", " waits since ", ` in c-ab: one\x1b[2J`)
		out.Reset()
		must(t, c.ListOutbox(t.Context(), &Lines{Out: &out, Err: &out, JSON: true}))
		has(t, out.String(), `{"what":"waiting","conv":"c-ab"`, `"body":"one\u001b[2J"`)
		time.Sleep(time.Minute)
		if got := w.log(); len(got) != 0 {
			t.Errorf("listing has sent %q", got)
		}
	})
}

func TestFollow(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana, ben := w.person("u-ana"), w.person("u-ben")
		_, err := ana.pipe("one\ntwo\nthree\n", time.Minute)
		must(t, err)
		f := ben.follow(strings.NewReader("/read\n/nothing\nhello\n"), false, Since{Last: 2})
		f.wants("u-ben: hello")
		_, err = ana.pipe("/recall 1\n\u202eevil\n", time.Minute)
		must(t, err)
		f.wants(`u-ana: \u202eevil`)
		f.ends()
		// On a new store everything is there, whatever Last says.
		has(t, f.text(), "1 2000-01-01 ", "u-ana: one", "2 2", "u-ana: two", "4 2", "u-ben: hello", "u-ana has recalled 1")
		has(t, f.text(), "not taken: there is no order /nothing")
	})
}

func TestFollowBeginsWhereItIsTold(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana, ben := w.person("u-ana"), w.person("u-ben")
		_, err := ana.pipe("m1\nm2\nm3\nm4\nm5\n", time.Minute)
		must(t, err)
		one := int64(1)
		ben.cfg.Client.History = &one
		_, err = ben.pipe("m6\n", time.Minute) // the store begins with m5
		must(t, err)
		for _, c := range []struct {
			since       Since
			first, none string
		}{
			{Since{Last: 1}, "m6", "m5"},
			{Since{Last: 100}, "m5", "m4"},
			{Since{Seq: new(impart.Seq)}, "m1", "nothing"},
			{Since{Seq: ptr(impart.Seq(2))}, "m3", "m2"},
			{Since{Seq: ptr(impart.Seq(5))}, "m6", "m5"},
		} {
			f := ben.follow(strings.NewReader(""), false, c.since)
			f.wants("m6")
			f.ends()
			must(t, w.chats[len(w.chats)-1].Close())
			has(t, f.text(), c.first)
			if strings.Contains(f.text(), c.none) {
				t.Errorf("%+v has written\n%s", c.since, f.text())
			}
		}
	})
}

// A store that gets the conversation while Follow waits has nothing that is not new.
func TestFollowOnANewStoreLeavesNothingOut(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana")
		_, err := ana.pipe("m1\nm2\nm3\n", time.Minute)
		must(t, err)
		ben := w.person("u-ben")
		ben.link.Off()
		f := &follower{Chat: ben.start()}
		must(t, f.begin(t.Context(), Since{Last: 1}))
		ben.link.On()
		must(t, f.WaitOnline(t.Context()))
		must(t, f.begin(t.Context(), f.since))
		if f.after != 0 {
			t.Errorf("it begins after %d", f.after)
		}
	})
}

// More lines than the outbox takes wait for room.
func TestAFullOutboxHoldsTheInputBack(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana")
		ana.cfg.Client.MaxOutbox = 3
		var want []string
		for i := range 20 {
			want = append(want, string(rune('a'+i)))
		}
		_, err := ana.pipe(strings.Join(want, "\n"), time.Minute)
		must(t, err)
		if got := w.log(); !slices.Equal(got, want) {
			t.Errorf("the log is %q", got)
		}
	})
}

func ptr[T any](v T) *T { return &v }

func TestFollowAnUnknownConversation(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana")
		ana.cfg.Conv = "c-none"
		err := <-ana.follow(strings.NewReader(""), false, Since{}).done
		if err == nil || !strings.Contains(err.Error(), "u-ana is in no conversation c-none: ") {
			t.Errorf("the error is %v", err)
		}
	})
}

// Every form says a refusal once, with what to do about it.
func TestNoMember(t *testing.T) {
	const once = "u-ana is in no conversation c-none: let somebody add them, or make it with impart admin conv put c-none --member u-ana"
	check := func(t *testing.T, got, begin, end string) {
		t.Helper()
		if !strings.Contains(got, begin+once+end) || strings.Contains(got, "not a member") {
			t.Errorf("it says %q", got)
		}
	}
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana")
		ana.cfg.Conv = "c-none"
		check(t, (<-ana.follow(strings.NewReader(""), false, Since{}).done).Error(), "", "")
		must(t, w.last().Close())
		out, err := ana.pipe("hello?\n/who 1\n", time.Minute)
		if err == nil {
			t.Error("a refusal is no failure")
		}
		check(t, out, "NOT_MEMBER: ", "; then /retry\n")
		check(t, out, "not taken: ", "\n")
		list := func(asJSON bool) string {
			c := ana.start()
			var out bytes.Buffer
			must(t, c.ListOutbox(t.Context(), &Lines{Out: &out, Err: &out, JSON: asJSON}))
			must(t, c.Close())
			return out.String()
		}
		check(t, list(false), "(NOT_MEMBER: ", "; then /retry)\n")
		has(t, list(true), `"code":"NOT_MEMBER"`, `"advice":"`+once+`; then /retry"`)
	})
}

// An operator sees no device that lags when a script has ended as it should.
func TestAScriptLeavesNoLagBehind(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana")
		lag := func() map[impart.DeviceID]impart.Seq {
			d, err := w.Logic.Delivery(t.Context(), ab, impart.Seq(len(w.log())))
			must(t, err)
			behind := map[impart.DeviceID]impart.Seq{}
			for _, u := range d.Users {
				for _, c := range u.Devices {
					behind[c.Device] = d.Head - c.Delivered
				}
			}
			return behind
		}
		_, err := ana.pipe("one\n", time.Minute)
		must(t, err)
		if got := lag(); !maps.Equal(got, map[impart.DeviceID]impart.Seq{"d-u-ana": 0}) {
			t.Errorf("behind are %v", got)
		}
		// A device that was here before a conversation hears of it later than a new one.
		must(t, w.Conversation("c-late", "u-ana"))
		ana.cfg.Conv = "c-late"
		_, err = ana.pipe("late\n", time.Minute)
		must(t, err)
		d, err := w.Logic.Delivery(t.Context(), "c-late", 1)
		must(t, err)
		if got := d.Users[0].Devices; len(got) != 1 || got[0].Delivered != 1 {
			t.Errorf("in the conversation that is new: %+v", got)
		}
		ana.cfg.Conv = ab
		// Another device of the user that is away holds a script up for a moment only.
		away := w.person("u-ana")
		away.cfg.Client.Device = "d-away"
		c := away.start()
		must(t, c.WaitOnline(t.Context()))
		must(t, c.Close())
		began := time.Now()
		_, err = ana.pipe("two\nthree\n", time.Minute)
		must(t, err)
		if took := time.Since(began); took > 2*ackLong {
			t.Errorf("it took %v", took)
		}
		if got := lag(); got["d-u-ana"] != 0 || got["d-away"] == 0 {
			t.Errorf("behind are %v", got)
		}
	})
}

// From the sender's side: stored, delivered, read, as a script sees it.
func TestFollowTellsStates(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana, ben := w.person("u-ana"), w.person("u-ben")
		f := ana.follow(strings.NewReader("hi\n"), true, Since{})
		f.wants(`"what":"stored","conv":"c-ab","seq":1`)
		b := ben.follow(strings.NewReader(""), true, Since{})
		f.wants(`{"what":"receipt","conv":"c-ab","user":"u-ben","delivered":1,"read":0}`)
		b.ends()
		must(t, w.chats[1].Close())
		_, err := ben.pipe("/read\n", time.Minute)
		must(t, err)
		f.wants(`{"what":"receipt","conv":"c-ab","user":"u-ben","delivered":1,"read":1}`)
		ana.link.Off()
		f.wants(`"state":"waiting"`)
		ana.link.On()
		f.wants(`"state":"catching-up"`)
		f.ends()
		has(t, f.text(), `"what":"status"`, `"state":"online"`, `"what":"stored"`, `"what":"receipt"`)
	})
}

func TestFollowEndsWhenTheDeviceIsTakenOver(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana, copied := w.person("u-ana"), w.person("u-ana")
		f := ana.follow(strings.NewReader("hi\n"), false, Since{})
		f.wants("stored c-ab 1")
		copied.start()
		if err := <-f.done; err == nil || !strings.Contains(err.Error(), "connected from elsewhere") {
			t.Errorf("the error is %v", err)
		}
	})
}
