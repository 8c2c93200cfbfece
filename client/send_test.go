package client_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
	"github.com/impart-im/impart/internal/lab/world"
)

func TestAMessageArrives(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ana.send(ab, "hi")
		ana.through()
		w.wantsLog(ab, "hi")
		ben.wants(ab, "hi")
		ana.wants(ab, "hi")
		ben.send(ab, "hello")
		ana.wants(ab, "hi", "hello")
	})
}

func TestWhatIsWrittenOfflineIsSentInOrder(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ana.online()
		ana.link.Off()
		texts := numbered("m", 100)
		for i, text := range texts {
			ana.send(ab, text)
			if i == 50 {
				ana.restart()
			}
		}
		list, err := ana.Outbox(t.Context())
		must(t, err)
		if len(list) != 100 || list[0].Body != "m1" {
			t.Fatalf("the outbox has %d items", len(list))
		}
		ana.link.On()
		ana.through()
		w.wantsLog(ab, texts...)
		ben.wants(ab, texts...)
		ana.wants(ab, texts...)
	})
}

// Case 24.
func TestOrderSurvivesACutInTheMiddle(t *testing.T) {
	for cutAt := range 14 {
		t.Run(fmt.Sprint(cutAt), func(t *testing.T) {
			story(t, func(t *testing.T, w *server) {
				ana := w.app("ana")
				ana.online()
				ana.link.Off()
				texts := numbered("m", 13)
				for _, text := range texts[:12] {
					ana.send(ab, text)
				}
				sends := 0
				ana.link.Rule(func(f world.Frame) world.Fate {
					if f.T == "send" {
						if sends++; sends == cutAt+1 {
							return world.Cut
						}
					}
					return world.Pass
				})
				ana.link.On()
				ana.online()
				ana.send(ab, texts[12])
				ana.through()
				w.wantsLog(ab, texts...)
			})
		})
	}
}

func TestLostRepliesMakeNoSecondMessage(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		ana.online()
		lost := 0
		ana.link.Rule(func(f world.Frame) world.Fate {
			if f.FromServer && (f.T == "hint" || f.T == "synced") {
				return world.Drop // or they would be found in the log before they are sent again
			}
			if f.FromServer && f.T == "sent" {
				if lost++; lost%3 != 0 {
					return world.Drop
				}
			}
			return world.Pass
		})
		texts := numbered("m", 20)
		for _, text := range texts {
			ana.send(ab, text)
		}
		ana.through()
		w.wantsLog(ab, texts...)
		ana.link.Rule(nil)
		ana.wants(ab, texts...)
		ana.link.Seen()
		if lost < 30 {
			t.Errorf("only %d replies were on their way: nothing was sent again", lost)
		}
	})
}

// Case 13.
func TestLateRepliesSettleOnce(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana", func(cfg *client.Config) { cfg.ReplyTimeout = time.Second })
		ana.online()
		held := 0
		ana.link.Rule(func(f world.Frame) world.Fate {
			if f.FromServer && f.T == "sent" {
				if held++; held == 1 {
					time.Sleep(3500 * time.Millisecond) // and all behind it
				}
				return world.Twice
			}
			return world.Pass
		})
		ana.send(ab, "hi")
		ana.through()
		time.Sleep(time.Minute)
		w.wantsLog(ab, "hi")
		ana.wants(ab, "hi")
		ana.mu.Lock()
		defer ana.mu.Unlock()
		if len(ana.settled) != 1 {
			t.Errorf("settled %d times", len(ana.settled))
		}
	})
}

// Case 15.
func TestTheCmidIsTheSameAfterARestart(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		ana.online()
		seen := map[string]int{}
		ana.link.Rule(func(f world.Frame) world.Fate {
			if f.T == "send" {
				_, rest, _ := strings.Cut(string(f.Text), `"cmid":"`)
				cmid, _, _ := strings.Cut(rest, `"`)
				seen[cmid]++
				return world.Cut
			}
			return world.Pass
		})
		cmid := ana.send(ab, "hi")
		time.Sleep(time.Minute)
		ana.restart()
		time.Sleep(time.Minute)
		ana.link.Rule(nil)
		ana.through()
		ana.link.Seen()
		if len(seen) != 1 || seen[string(cmid)] < 3 {
			t.Errorf("the wire saw %v, not %q again and again", seen, cmid)
		}
		w.wantsLog(ab, "hi")
	})
}

func TestAKnownDraftIsTakenOnce(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		draft := client.Draft{Conv: ab, Body: "hi", CMID: "my-1"}
		sends := 0
		ana.link.Rule(func(f world.Frame) world.Fate {
			if f.T == "send" {
				sends++
			}
			return world.Pass
		})
		for range 3 {
			_, err := ana.Send(t.Context(), draft)
			must(t, err)
			ana.through()
		}
		w.wantsLog(ab, "hi")
		ana.link.Seen()
		if sends != 1 {
			t.Errorf("sent %d times", sends)
		}
	})
}

func TestAFinalRefusalSettlesOnlyItsOwnItem(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		ana.online()
		ana.link.Off()
		ana.send(ab, "one")
		bad := ana.send(ab, strings.Repeat("x", 70_000))
		ana.send(ab, "two")
		lost := ana.send("c-nowhere", "three")
		ana.link.On()
		ana.through()
		w.wantsLog(ab, "one", "two")
		list, err := ana.Refused(t.Context())
		must(t, err)
		if len(list) != 2 || list[0].CMID != bad || list[0].Err.Code != impart.TooLarge || list[1].CMID != lost || list[1].Err.Code != impart.NotMember {
			t.Fatalf("refused are %+v", list)
		}
		must(t, ana.Dismiss(t.Context(), bad))
		if list, _ = ana.Refused(t.Context()); len(list) != 1 {
			t.Errorf("%d are left after one was dismissed", len(list))
		}
		if err := ana.Dismiss(t.Context(), bad); err != client.ErrUnknownMessage {
			t.Errorf("dismissed twice: %v", err)
		}
	})
}

func TestWhatNoServerWouldTakeIsRefusedAtOnce(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana", func(cfg *client.Config) { cfg.MaxOutbox = 2 })
		ana.link.Off()
		for name, d := range map[string]client.Draft{
			"NUL":         {Conv: ab, Body: "a\x00b"},
			"no UTF-8":    {Conv: ab, Body: "a\xffb"},
			"no conv":     {Body: "x"},
			"control":     {Conv: "c\n", Body: "x"},
			"long cmid":   {Conv: ab, Body: "x", CMID: impart.CMID(strings.Repeat("x", 65))},
			"long type":   {Conv: ab, Body: "x", Type: strings.Repeat("x", 65)},
			"ext no JSON": {Conv: ab, Body: "x", Ext: []byte("{")},
			"ext array":   {Conv: ab, Body: "x", Ext: []byte("[1]")},
			"ext long":    {Conv: ab, Body: "x", Ext: []byte(`{"a":"` + strings.Repeat("x", 4096) + `"}`)},
			"huge":        {Conv: ab, Body: strings.Repeat("\x01", 200_000)},
		} {
			if _, err := ana.Send(t.Context(), d); codeOf(err) != impart.BadFrame && codeOf(err) != impart.TooLarge {
				t.Errorf("%s: %v", name, err)
			}
		}
		ana.send(ab, "one")
		ana.send(ab, "two")
		if _, err := ana.Send(t.Context(), client.Draft{Conv: ab, Body: "three"}); err != client.ErrOutboxFull {
			t.Errorf("past the bound of the outbox: %v", err)
		}
		ana.link.On()
		ana.through()
		w.wantsLog(ab, "one", "two")
	})
}

// Case 1, and the SDK's part of 43: the database refuses writes for a while.
func TestRetryableErrorsKeepOrder(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		ana.online()
		n := 0
		w.Store.OnCommit(func() error {
			if n++; n%2 == 1 && n < 40 {
				return impart.Errorf(impart.Unavailable, "the disk is slow today")
			}
			return nil
		}, nil)
		texts := numbered("m", 40)
		for _, text := range texts {
			ana.send(ab, text)
		}
		ana.through()
		w.wantsLog(ab, texts...)
		ana.wants(ab, texts...)
	})
}

func TestACommitOfUnknownOutcomeIsSettledByTheRetry(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		ana.online()
		n := 0
		w.Store.OnCommit(nil, func() error {
			if n++; n < 20 && n%3 != 0 {
				return impart.Errorf(impart.Unavailable, "the connection was lost during COMMIT")
			}
			return nil
		})
		texts := numbered("m", 10)
		for _, text := range texts {
			ana.send(ab, text)
		}
		ana.through()
		w.wantsLog(ab, texts...)
	})
}

func TestTheServerCrashesAgainAndAgain(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ana.online()
		ben.online()
		texts := numbered("m", 200)
		for i, text := range texts {
			ana.send(ab, text)
			if i%20 == 10 {
				w.Crash()
				must(t, w.Restart())
			}
			time.Sleep(time.Duration(i%7) * 30 * time.Millisecond)
		}
		ana.through()
		w.wantsLog(ab, texts...)
		ben.wants(ab, texts...)
	})
}

// Case 37.
func TestCancel(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ana.online()
		ana.link.Off()
		ana.send(ab, "one")
		never := ana.send(ab, "never")
		ana.send(ab, "two")
		done, err := ana.Cancel(t.Context(), never)
		must(t, err)
		if done != client.NotSent {
			t.Errorf("cancelled offline: %s", done)
		}
		ana.link.On()
		ana.through()
		w.wantsLog(ab, "one", "two")

		sent := ana.send(ab, "oops")
		ana.through()
		ben.wants(ab, "one", "two", "oops")
		done, err = ana.Cancel(t.Context(), sent)
		must(t, err)
		if done != client.Recalling {
			t.Errorf("cancelled after it was stored: %s", done)
		}
		ana.through()
		w.wantsLog(ab, "one", "two", "", "-3")
		ben.wants(ab, "one", "two", "oops", "-3")
		if _, err := ana.Cancel(t.Context(), "c-unknown"); err != client.ErrUnknownMessage {
			t.Errorf("an unknown cmid: %v", err)
		}
	})
}

// Stored by an attempt whose reply was lost, cancelled before that could be seen.
func TestACancelledMessageThatWasStoredIsRecalled(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		ana.online()
		ana.link.Rule(func(f world.Frame) world.Fate {
			if f.FromServer && f.T == "sent" {
				ana.link.Off()
			}
			return world.Pass
		})
		cmid := ana.send(ab, "oops")
		time.Sleep(time.Second)
		ana.restart()
		done, err := ana.Cancel(t.Context(), cmid)
		must(t, err)
		if done != client.NotSent {
			t.Errorf("cancelled: %s", done)
		}
		ana.link.Rule(nil)
		ana.link.On()
		ana.online()
		time.Sleep(time.Minute)
		w.wantsLog(ab, "", "-1")
	})
}

func TestRecall(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ana.send(ab, "oops")
		ana.through()
		ben.wants(ab, "oops")
		_, err := ana.Recall(t.Context(), ab, 1)
		must(t, err)
		ana.through()
		ben.wants(ab, "oops", "-1")
		for _, a := range []*app{ana, ben} {
			events, err := a.Events(t.Context(), ab, 0, 10)
			must(t, err)
			if len(events) != 2 || events[0].Body != "" || !events[0].Recalled {
				t.Errorf("%s still holds %+v", a.cfg.Device, events)
			}
		}
		if _, err := ben.Recall(t.Context(), ab, 9); codeOf(err) != impart.NotFound {
			t.Errorf("a recall of nothing: %v", err)
		}
	})
}

// Found by the campaign: it left the outbox, and stayed in the log.
func TestADraftGivenAgainIsCancelledInTheLog(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		draft := client.Draft{Conv: ab, Body: "oops", CMID: "mine"}
		_, err := ana.Send(t.Context(), draft)
		must(t, err)
		ana.through()
		ana.stop()
		must(t, os.Remove(ana.cfg.Store))
		ana.handed = map[impart.ConvID][]impart.Event{}
		ana.start()
		ana.wants(ab, "oops")
		ana.link.Off()
		_, err = ana.Send(t.Context(), draft)
		must(t, err)
		done, err := ana.Cancel(t.Context(), "mine")
		must(t, err)
		if done != client.Recalling {
			t.Errorf("cancelled as %s", done)
		}
		ana.link.On()
		ana.through()
		w.wantsLog(ab, "", "-1")
	})
}
