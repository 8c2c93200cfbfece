package client_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
	"github.com/impart-im/impart/internal/lab/world"
	"github.com/impart-im/impart/internal/store/memstore"
)

// restoreBackup takes the server back to when the backup was made, under a new epoch.
func (w *server) restoreBackup(backup *memstore.Store) impart.Epoch {
	w.t.Helper()
	w.Crash()
	w.Store = backup
	must(w.t, w.Restart())
	epoch, err := w.Logic.RaiseEpoch(w.t.Context())
	must(w.t, err)
	return epoch
}

// entered waits until the client has caught up with a new epoch.
func (a *app) entered(epoch impart.Epoch) {
	a.t.Helper()
	for range 10_000 {
		if s := a.Status(); s.State == client.Online && s.Epoch == epoch {
			return
		}
		time.Sleep(50 * time.Millisecond) // virtual
	}
	a.t.Fatalf("not in epoch %d: %+v", epoch, a.Status())
}

func TestANewEpochThatLostNothingCostsOneComparison(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		texts := numbered("m", 300)
		for _, text := range texts {
			ana.send(ab, text)
		}
		ana.through()
		ben.wants(ab, texts...)
		syncs, events := 0, 0
		ben.link.Rule(func(f world.Frame) world.Fate {
			switch f.T {
			case "sync":
				syncs++
			case "event":
				events++
			}
			return world.Pass
		})
		_, err := w.Logic.RaiseEpoch(t.Context())
		must(t, err)
		time.Sleep(time.Minute)
		ben.online()
		ana.online()
		ben.link.Seen()
		if syncs != 1 || events != 0 {
			t.Errorf("%d syncs and %d events for an epoch in which nothing changed", syncs, events)
		}
		if ben.rewound != nil {
			t.Errorf("the application was told of %q", ben.rewound)
		}
		ana.send(ab, "after")
		ben.wants(ab, append(slices.Clone(texts), "after")...)
		if ana.Status().Epoch == 1 {
			t.Error("the client is in the old epoch")
		}
	})
}

// Case 22.
func TestUndoneMessagesGoBackIntoTheOutbox(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		for _, text := range numbered("a", 5) {
			ana.send(ab, text)
		}
		ana.through()
		ben.wants(ab, numbered("a", 5)...)
		backup := w.Store.Backup()
		ana.send(ab, "a6")
		ana.through()
		ben.wants(ab, numbered("a", 6)...)
		ben.send(ab, "b1")
		ben.through()
		ana.send(ab, "a7")
		ana.through()
		ben.wants(ab, append(numbered("a", 6), "b1", "a7")...)
		ana.link.Off()
		ana.send(ab, "a8") // written before the loss is known
		epoch := w.restoreBackup(backup)
		ben.entered(epoch)
		ben.through()
		ana.link.On()
		ana.through()
		w.wantsLog(ab, append(numbered("a", 5), "b1", "a6", "a7", "a8")...)
		want := append(numbered("a", 5), "b1", "a6", "a7", "a8")
		ana.wants(ab, want...)
		ben.wants(ab, want...)
		if !slices.Contains(ben.rewound, "c-ab after 5") {
			t.Errorf("ben's application was told of %q", ben.rewound)
		}
	})
}

// Found by the campaign: the answer to the first of two messages was lost, and the
// second, once undone, was put before it.
func TestWhatWasUndoneGoesBackToItsPlace(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		ana.online()
		backup := w.Store.Backup()
		lost := false
		ana.link.Rule(func(f world.Frame) world.Fate {
			switch {
			case f.T == "sent" && lost, f.T != "sent" && f.T != "synced" && f.T != "event":
				return world.Pass
			}
			lost = true
			return world.Drop
		})
		ana.send(ab, "a1")
		ana.send(ab, "a2")
		for range 100 {
			if list, err := ana.Outbox(t.Context()); err != nil || len(list) == 1 && list[0].Body == "a1" {
				break
			}
			time.Sleep(50 * time.Millisecond) // virtual
		}
		ana.link.Off()
		list, err := ana.Outbox(t.Context())
		must(t, err)
		if len(list) != 1 || list[0].Body != "a1" {
			t.Fatalf("%d items wait, want a1 alone", len(list))
		}
		epoch := w.restoreBackup(backup)
		ana.link.Rule(nil)
		ana.link.On()
		ana.entered(epoch)
		ana.through()
		w.wantsLog(ab, "a1", "a2")
	})
}

// Found by the campaign: a draft that was given again after a reinstall was
// answered from the log, and forgotten when a new epoch had undone it.
func TestADraftGivenAgainIsUndoneLikeAnyOther(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		ana.send(ab, "first")
		ana.through()
		backup := w.Store.Backup()
		draft := client.Draft{Conv: ab, Body: "again", CMID: "mine"}
		_, err := ana.Send(t.Context(), draft)
		must(t, err)
		ana.through()
		ana.stop()
		must(t, os.Remove(ana.cfg.Store))
		ana.handed = map[impart.ConvID][]impart.Event{}
		ana.start()
		ana.wants(ab, "first", "again")
		_, err = ana.Send(t.Context(), draft)
		must(t, err)
		ana.through()
		ana.entered(w.restoreBackup(backup))
		ana.through()
		w.wantsLog(ab, "first", "again")
	})
}

func TestARecallThatWasUndoneIsMadeAgain(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ana.send(ab, "keep")
		ana.send(ab, "oops")
		ana.through()
		ben.wants(ab, "keep", "oops")
		backup := w.Store.Backup()
		_, err := ana.Recall(t.Context(), ab, 2)
		must(t, err)
		ana.send(ab, "gone and never again")
		ana.through()
		ben.wants(ab, "keep", "oops", "-2", "gone and never again")
		_, err = ana.Recall(t.Context(), ab, 4)
		must(t, err)
		ana.through()
		ana.entered(w.restoreBackup(backup))
		ana.through()
		time.Sleep(time.Minute)
		// The recalled message that was undone is not sent again; its text is gone.
		w.wantsLog(ab, "keep", "", "-2")
		// Ben's store has lost the text with the first recall. He gets it anew, if he
		// asks before the second one is there.
		if got := ben.bodies(ab); len(got) != 3 || got[0] != "keep" || got[2] != "-2" {
			t.Errorf("ben was handed %q", got)
		}
	})
}

// Found by the campaign: the recall was refused with CURSOR_AHEAD, and the
// message was sent again and stayed.
func TestAMessageThatWasUndoneBeforeItsRecallIsNotSentAgain(t *testing.T) {
	for name, takeBack := range map[string]func(*app, impart.CMID) error{
		"recall": func(a *app, _ impart.CMID) error { _, err := a.Recall(a.t.Context(), ab, 2); return err },
		"cancel": func(a *app, cmid impart.CMID) error { _, err := a.Cancel(a.t.Context(), cmid); return err },
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, w *server) {
				ana := w.app("ana")
				ana.send(ab, "keep")
				ana.through()
				backup := w.Store.Backup()
				oops := ana.send(ab, "oops")
				ana.send(ab, "after")
				ana.through()
				ana.link.Off()
				must(t, takeBack(ana, oops))
				epoch := w.restoreBackup(backup)
				ana.link.On()
				ana.entered(epoch)
				ana.through()
				time.Sleep(time.Minute)
				w.wantsLog(ab, "keep", "after")
				if list, err := ana.Refused(t.Context()); err != nil || len(list) != 0 {
					t.Errorf("refused: %+v, %v", list, err)
				}
			})
		})
	}
}

func TestCrashesWhileHistoriesAreCompared(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		for _, text := range numbered("a", 40) {
			ana.send(ab, text)
		}
		ana.through()
		backup := w.Store.Backup()
		for _, text := range numbered("b", 40) {
			ana.send(ab, text)
		}
		ana.through()
		syncs := 0
		ana.link.Rule(func(f world.Frame) world.Fate {
			if f.T == "synced" || f.T == "error" {
				if syncs++; syncs%2 == 0 && syncs < 30 {
					return world.Cut
				}
			}
			return world.Pass
		})
		epoch := w.restoreBackup(backup)
		for range 5 {
			time.Sleep(time.Second)
			ana.restart()
		}
		ana.entered(epoch)
		ana.through()
		ana.wants(ab, append(numbered("a", 40), numbered("b", 40)...)...)
		w.wantsLog(ab, append(numbered("a", 40), numbered("b", 40)...)...)
	})
}

// Found by the campaign: the client died of the question that nobody waited for.
func TestAnotherEpochWhileHistoriesAreCompared(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		for _, text := range numbered("a", 9) {
			ana.send(ab, text)
		}
		ana.through()
		lost := 0
		ana.link.Rule(func(f world.Frame) world.Fate {
			if f.T == "synced" && lost == 0 {
				lost++
				return world.Drop
			}
			return world.Pass
		})
		_, err := w.Logic.RaiseEpoch(t.Context())
		must(t, err)
		time.Sleep(time.Second)
		epoch, err := w.Logic.RaiseEpoch(t.Context())
		must(t, err)
		ana.entered(epoch)
		time.Sleep(time.Minute)
		if lost != 1 || ana.rewound != nil {
			t.Errorf("%d replies were lost, and the application was told of %q", lost, ana.rewound)
		}
		ana.send(ab, "a10")
		ana.wants(ab, numbered("a", 10)...)
	})
}

func TestAReinstalledDeviceStartsAnew(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ana.send(ab, "m1")
		ana.through()
		ben.wants(ab, "m1")
		ben.stop()
		must(t, os.Remove(ben.cfg.Store))
		ben.handed = map[impart.ConvID][]impart.Event{}
		ben.start()
		ben.wants(ab, "m1")
		ana.send(ab, "m2")
		ben.wants(ab, "m1", "m2")
	})
}

// Hole 20: the store of a phone comes back from a backup.
func TestARolledBackStoreMissesNothing(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ana.online()
		ben.online()
		for _, text := range numbered("m", 5) {
			ana.send(ab, text)
		}
		ana.through()
		ben.wants(ab, numbered("m", 5)...)
		ben.link.Off()
		waiting := ben.send(ab, "from ben")
		ben.stop()
		old, err := os.ReadFile(ben.cfg.Store)
		must(t, err)
		ben.start()
		ben.link.On()
		ben.through()
		for _, text := range numbered("n", 5) {
			ana.send(ab, text)
		}
		want := append(append(numbered("m", 5), "from ben"), numbered("n", 5)...)
		ben.wants(ab, want...)
		time.Sleep(time.Minute)
		ben.stop()
		must(t, os.WriteFile(ben.cfg.Store, old, 0o600))
		for _, side := range []string{"-wal", "-shm"} {
			_ = os.Remove(ben.cfg.Store + side)
		}
		ben.mu.Lock()
		ben.handed[ab] = ben.handed[ab][:5]
		ben.settled = nil
		ben.mu.Unlock()
		sends := 0
		ben.link.Rule(func(f world.Frame) world.Fate {
			if f.T == "send" {
				sends++
			}
			return world.Pass
		})
		ben.start()
		ben.online()
		ben.wants(ab, want...)
		ben.through()
		ben.link.Seen()
		if sends != 0 {
			t.Errorf("%d messages were sent again, though the log shows them", sends)
		}
		time.Sleep(time.Second) // the handler is told by a goroutine of its own
		ben.mu.Lock()
		if len(ben.settled) != 1 || ben.settled[0].CMID != waiting {
			t.Errorf("settled: %+v", ben.settled)
		}
		ben.mu.Unlock()
		ana.send(ab, "last")
		ben.wants(ab, append(want, "last")...)
		time.Sleep(time.Minute)
		report, err := ana.Who(t.Context(), ab, 12, "")
		must(t, err)
		for _, user := range report.Users {
			if user.Delivered != user.Devices {
				t.Errorf("%s has it on %d of %d devices", user.User, user.Delivered, user.Devices)
			}
		}
	})
}

// Case 34, and the cloned store: the two do not kick each other for ever.
func TestSupersededIsFinal(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ben.online()
		ben.stop()
		data, err := os.ReadFile(ben.cfg.Store)
		must(t, err)
		ben.start()
		ben.online()
		clone := t.TempDir() + "/clone.db"
		must(t, os.WriteFile(clone, data, 0o600))
		twin := w.appOn(w.Link(), "ben", clone, func(cfg *client.Config) { cfg.Device = "d-ben" })
		twin.online()
		time.Sleep(10 * time.Minute)
		if status := ben.Status(); status.State != client.Stopped {
			t.Errorf("the older one is %+v", status)
		}
		if dials := ben.link.Dials(); dials > 2 {
			t.Errorf("the older one has dialled %d times", dials)
		}
		if err := ben.WaitOnline(t.Context()); err == nil {
			t.Error("WaitOnline has no error for a client that stays away")
		}
		ben.send(ab, "from the outbox")
		ana.send(ab, "hi")
		twin.wants(ab, "hi")
		ben.Reconnect()
		ben.through()
		w.wantsLog(ab, "hi", "from the outbox")
		ben.wants(ab, "hi", "from the outbox")
	})
}

func TestWhatWasReadIsToldAgainInANewEpoch(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ana.send(ab, "hi")
		ana.through()
		ben.wants(ab, "hi")
		must(t, ben.Read(t.Context(), ab, 1))
		ben.wantsRead(1)
		epoch, err := w.Logic.RaiseEpoch(t.Context())
		must(t, err)
		ben.entered(epoch)
		ana.entered(epoch)
		time.Sleep(time.Second)
		report, err := ana.Who(t.Context(), ab, 1, "")
		must(t, err)
		for _, user := range report.Users {
			if user.User == "u-ben" && !user.Read {
				t.Error("in the new epoch the server does not know that u-ben has read it")
			}
		}
	})
}

// Found by the campaign: the clone and its origin had written as often, so that n
// did not tell them apart, and the acks of the one counted for the other.
func TestWhatACloneHasAcknowledgedIsNotTakenForOnesOwn(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		must(t, w.Conversation("c-two", "u-ana", "u-ben"))
		ana, ben := w.app("ana"), w.app("ben")
		ben.online()
		ben.stop()
		data, err := os.ReadFile(ben.cfg.Store)
		must(t, err)
		ben.start()
		for i, text := range []string{"m1", "m2"} { // two writes here, one in the clone
			ana.send(ab, text)
			ben.wants(ab, []string{"m1", "m2"}[:i+1]...)
			time.Sleep(time.Second)
		}
		clone := t.TempDir() + "/clone.db"
		must(t, os.WriteFile(clone, data, 0o600))
		twin := w.appOn(w.Link(), "ben", clone, func(cfg *client.Config) { cfg.Device = "d-ben" })
		twin.wants(ab, "m1", "m2")
		ana.send("c-two", "m3")
		twin.wants("c-two", "m3")
		time.Sleep(time.Second)
		twin.stop()
		ben.Reconnect()
		ben.wants("c-two", "m3")
		ana.send(ab, "m4")
		ben.wants(ab, "m1", "m2", "m4")
	})
}

// Found by the campaign: the events of the undone membership stayed, and were
// acknowledged for those of the next one.
func TestAMembershipThatWasUndoneTakesItsEventsWithIt(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		must(t, w.Conversation("c-two", "u-ana"))
		join := func() {
			_, err := w.Logic.PutMember(t.Context(), "c-two", impart.Member{User: "u-ben"})
			must(t, err)
		}
		ana, ben := w.app("ana"), w.app("ben")
		ana.online()
		backup := w.Store.Backup()
		join()
		lost := ben.send("c-two", "from ben")
		ben.through()
		ben.wants("c-two", "", "from ben")
		ben.entered(w.restoreBackup(backup))
		ben.through()
		refused, err := ben.Refused(t.Context())
		must(t, err)
		if len(refused) != 1 || refused[0].CMID != lost || refused[0].Err.Code != impart.NotMember {
			t.Errorf("refused: %+v", refused)
		}
		ana.send("c-two", "before ben")
		ana.through()
		join()
		ana.send("c-two", "after ben")
		ana.through()
		ben.wants("c-two", "", "after ben")
	})
}

// Found by the campaign: as a new install the device began near the head, and
// nobody told it of what came between that and its old store.
func TestARolledBackStoreDoesNotStartNearTheHeadAgain(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		none := int64(0)
		ana, ben := w.app("ana"), w.app("ben", func(cfg *client.Config) { cfg.History = &none })
		ben.online()
		ana.send(ab, "m1")
		ana.through()
		ben.wants(ab, "m1")
		ben.stop()
		old, err := os.ReadFile(ben.cfg.Store)
		must(t, err)
		ben.start()
		texts := numbered("n", 5)
		for _, text := range texts {
			ana.send(ab, text)
		}
		ben.wants(ab, append([]string{"m1"}, texts...)...)
		time.Sleep(time.Minute)
		ben.stop()
		must(t, os.WriteFile(ben.cfg.Store, old, 0o600))
		for _, side := range []string{"-wal", "-shm"} {
			_ = os.Remove(ben.cfg.Store + side)
		}
		ben.handed[ab] = ben.handed[ab][:1]
		cuts := 0 // the first connection tells of the head, and ends before that helps
		ben.link.Rule(func(f world.Frame) world.Fate {
			if (f.T == "synced" || f.T == "pulled") && cuts < 2 {
				cuts++
				return world.Cut
			}
			return world.Pass
		})
		ben.start()
		ben.wants(ab, append([]string{"m1"}, texts...)...)
	})
}
