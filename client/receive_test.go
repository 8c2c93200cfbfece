package client_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
	"github.com/impart-im/impart/internal/lab/world"
)

// Case 3, and 2: pushes are lost, and nobody but the server can know.
func TestTheCursorNeverPassesAGap(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ana.online()
		ben.online()
		pushes, acked := 0, impart.Seq(0)
		ben.link.Rule(func(f world.Frame) world.Fate {
			switch {
			case f.FromServer && f.T == "event":
				if pushes++; pushes == 4 {
					return world.Drop
				}
			case f.FromServer && (f.T == "hint" || f.T == "synced"):
				return world.Drop
			case f.T == "ack":
				_, _ = fmt.Sscanf(after(string(f.Text), `"seq":`), "%d", &acked)
			}
			return world.Pass
		})
		for _, text := range numbered("m", 5) {
			ana.send(ab, text)
		}
		time.Sleep(8 * time.Second)
		ben.wants(ab, numbered("m", 3)...)
		ben.link.Seen()
		if acked != 3 {
			t.Errorf("acknowledged up to %d with 4 missing", acked)
		}
		ben.link.Rule(nil)
		ben.wants(ab, numbered("m", 5)...)
	})
}

func after(text, mark string) string {
	for i := range len(text) - len(mark) + 1 {
		if text[i:i+len(mark)] == mark {
			return text[i+len(mark):]
		}
	}
	return ""
}

func TestAllPushesVanish(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ben.online()
		ben.link.Rule(losing("event"))
		texts := numbered("m", 30)
		for _, text := range texts {
			ana.send(ab, text)
		}
		ben.wants(ab, texts...)
	})
}

// Case 18.
func TestWhatComesFiveTimesIsHandedOverOnce(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ben.online()
		ben.link.Rule(func(f world.Frame) world.Fate {
			if f.T == "ack" {
				return world.Drop // so that the server retries and hints
			}
			if f.FromServer {
				return world.Twice
			}
			return world.Pass
		})
		texts := numbered("m", 3)
		for _, text := range texts {
			ana.send(ab, text)
		}
		time.Sleep(2 * time.Minute)
		ben.wants(ab, texts...)
		ben.link.Rule(nil)
		ben.restart()
		ben.online()
		ben.wants(ab, texts...)
	})
}

// Case 31.
func TestAnEventTheHandlerDidNotFinishComesAgain(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		failures := 0
		ben.mu.Lock()
		ben.refuse = func(ev impart.Event) error {
			if ev.Body == "m2" && failures < 3 {
				failures++
				return errors.New("the application is not ready")
			}
			return nil
		}
		ben.mu.Unlock()
		texts := numbered("m", 4)
		for _, text := range texts {
			ana.send(ab, text)
		}
		ben.wants(ab, texts...)
		if failures != 3 {
			t.Errorf("the handler refused %d times", failures)
		}

		// A handler that is at work when the process ends.
		busy, free := make(chan struct{}), make(chan struct{})
		ben.mu.Lock()
		ben.refuse = func(ev impart.Event) error {
			if ev.Body == "m5" && busy != nil {
				close(busy)
				busy = nil
				<-free
				return errors.New("killed")
			}
			return nil
		}
		ben.mu.Unlock()
		wait := busy
		ana.send(ab, "m5")
		<-wait
		close(free)
		ben.restart()
		ben.wants(ab, numbered("m", 5)...)
	})
}

// Cases 10, 25 and 32: far behind, with live traffic, and a link that drops.
func TestCatchUpUnderLiveTraffic(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ben.online()
		ben.link.Off()
		texts := numbered("m", crowd(1500))
		away := len(texts) * 4 / 5
		for _, text := range texts[:away] {
			ana.send(ab, text)
		}
		ana.through()
		frames := 0
		ben.link.Rule(func(f world.Frame) world.Fate {
			if f.FromServer {
				time.Sleep(5 * time.Millisecond)
				if frames++; frames%40 == 0 {
					return world.Cut
				}
			}
			return world.Pass
		})
		ben.link.On()
		for _, text := range texts[away:] {
			ana.send(ab, text)
			time.Sleep(20 * time.Millisecond)
		}
		ana.through()
		ben.wants(ab, texts...)
	})
}

// Case 27.
func TestAnOutageOfAnyNumberOfPages(t *testing.T) {
	for _, missed := range []int{1, 499, 500, 501, crowd(1100)} {
		t.Run(fmt.Sprint(missed), func(t *testing.T) {
			story(t, func(t *testing.T, w *server) {
				ana, ben := w.app("ana"), w.app("ben")
				ben.online()
				ben.link.Off()
				texts := numbered("m", missed)
				for _, text := range texts {
					ana.send(ab, text)
				}
				ana.through()
				ben.link.On()
				ben.wants(ab, texts...)
			})
		})
	}
}

// Case 36.
func TestTheCursorPassesOverWhatIsNotOnesOwn(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		must(t, w.Conversation("c-club", "u-ana"))
		cid := w.app("cid")
		say := func(from, to int) {
			for i := from; i <= to; i++ {
				ana.send("c-club", fmt.Sprint("m", i))
			}
			ana.through()
		}
		admit := func(member bool) {
			t.Helper()
			var err error
			if member {
				_, err = w.Logic.PutMember(t.Context(), "c-club", impart.Member{User: "u-cid"})
			} else {
				_, err = w.Logic.RemoveMember(t.Context(), "c-club", "u-cid")
			}
			must(t, err)
		}
		say(1, 5)
		admit(true) // seq 6
		say(7, 9)
		admit(false) // seq 10
		say(11, 20)
		admit(true) // seq 21
		say(22, 23)
		want := []string{"", "m7", "m8", "m9", "", "", "m22", "m23"}
		cid.wants("c-club", want...)

		// The same for one who was away all the time, and for one who starts anew.
		cid.restart()
		cid.online()
		cid.wants("c-club", want...)
		fresh := w.app("cid", func(cfg *client.Config) { cfg.Device = "d-other" })
		fresh.wants("c-club", want...)
		list, err := fresh.Conversations(t.Context())
		must(t, err)
		if len(list) != 1 || list[0].Stored != 23 || list[0].Start != 5 {
			t.Errorf("the cursor of the second device is %+v", list)
		}
	})
}

func TestHistoryBoundsWhatANewStoreStartsWith(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		texts := numbered("m", 50)
		for _, text := range texts {
			ana.send(ab, text)
		}
		ana.through()
		ten := int64(10)
		ben := w.app("ben", func(cfg *client.Config) { cfg.History = &ten })
		ben.wants(ab, texts[40:]...)
		page, err := ben.History(t.Context(), ab, 41, 5)
		must(t, err)
		if len(page.Events) != 5 || page.Events[0].Seq != 40 || page.Events[4].Seq != 36 {
			t.Errorf("older events are %+v", page.Events)
		}
		list, err := ben.Conversations(t.Context())
		must(t, err)
		if list[0].Start != 40 || list[0].Stored != 50 {
			t.Errorf("the store says %+v", list)
		}
	})
}

func TestAcksAreMerged(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ana.online()
		ben.online()
		acks, events := 0, 0
		ben.link.Rule(func(f world.Frame) world.Fate {
			switch {
			case f.T == "ack":
				acks++
			case f.FromServer && f.T == "event":
				events++
			}
			return world.Pass
		})
		texts := numbered("m", 400)
		for _, text := range texts {
			ana.send(ab, text)
			time.Sleep(10 * time.Millisecond)
		}
		ana.through()
		ben.wants(ab, texts...)
		ben.link.Seen()
		if events < 400 || acks > 101 || acks < 20 {
			t.Errorf("%d acks for %d pushed events; wanted one in four", acks, events)
		}
		time.Sleep(time.Second)
		report, err := ana.Who(t.Context(), ab, 400, "")
		must(t, err)
		for _, user := range report.Users {
			if user.Delivered != user.Devices {
				t.Errorf("%s has it on %d of %d devices", user.User, user.Delivered, user.Devices)
			}
		}
	})
}

func TestReadIsToldOnceThereIsAConnection(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ana.send(ab, "hi")
		ana.through()
		ben.wants(ab, "hi")
		ben.link.Off()
		must(t, ben.Read(t.Context(), ab, 1))
		if err := ben.Read(t.Context(), ab, 2); codeOf(err) != impart.CursorAhead {
			t.Errorf("read ahead of the store: %v", err)
		}
		ben.restart()
		ben.link.On()
		ben.online()
		time.Sleep(time.Second)
		report, err := ana.Who(t.Context(), ab, 1, "")
		must(t, err)
		for _, user := range report.Users {
			if user.User == "u-ben" && !user.Read {
				t.Error("the server does not know that u-ben has read it")
			}
		}
	})
}

func TestReceiptsAndTyping(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		var mu sync.Mutex // guards what the handler notes
		var receipts []client.Receipt
		typing := ""
		ana := w.app("ana", func(cfg *client.Config) {
			cfg.Handler.Receipt = func(r client.Receipt) {
				mu.Lock()
				defer mu.Unlock()
				receipts = append(receipts, r)
			}
			cfg.Handler.Typing = func(conv impart.ConvID, user impart.UserID) {
				mu.Lock()
				defer mu.Unlock()
				typing = string(conv) + " " + string(user)
			}
		})
		ana.online()
		ben := w.app("ben")
		ben.online()
		ana.send(ab, "hi")
		ana.through()
		ben.wants(ab, "hi")
		must(t, ben.Read(t.Context(), ab, 1))
		ben.Typing(ab)
		time.Sleep(5 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(receipts) == 0 || receipts[len(receipts)-1] != (client.Receipt{Conv: ab, User: "u-ben", Delivered: 1, Read: 1}) {
			t.Errorf("the receipts are %+v", receipts)
		}
		if typing != "c-ab u-ben" {
			t.Errorf("typing is %q", typing)
		}
	})
}

// The local disk is full for a while: nothing may be acknowledged meanwhile, and
// nothing is missing afterwards.
func TestNothingIsAcknowledgedThatCouldNotBeStored(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ana.online()
		ben.online()
		ben.BreakStore(true)
		acks := 0
		ben.link.Rule(func(f world.Frame) world.Fate {
			if f.T == "ack" {
				acks++
			}
			return world.Pass
		})
		body := strings.Repeat("x", 10_000) // more than fits into the pages that are there
		ana.send(ab, body)
		ana.through()
		time.Sleep(time.Minute)
		ben.link.Seen()
		if acks > 0 {
			t.Errorf("%d acks for an event that could not be stored", acks)
		}
		if s := ben.Status(); s.Err == nil {
			t.Errorf("the application is not told: %+v", s)
		}
		if _, err := ben.Send(t.Context(), client.Draft{Conv: ab, Body: body}); err == nil {
			t.Error("Send took a message that is not in the outbox")
		}
		ben.BreakStore(false)
		ben.wants(ab, body)
		ben.link.Seen()
		if acks == 0 {
			t.Error("no ack at the end")
		}
	})
}
