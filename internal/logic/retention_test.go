package logic_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/memstore"
)

func TestOldEventsGoAndTheirClientsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(cfg *logic.Config) { cfg.Retention, cfg.DedupRetention = time.Hour, 2*time.Hour })
		w.group("c", ana, ben)
		session := w.device(ben, "phone")
		old := w.message(ana, "c", "old")
		w.try(old)
		recalled := w.message(ana, "c", "recalled")
		w.try(recalled)
		if _, err := w.Recall(w.ctx, impart.Recall{Sender: ana, Conv: "c", Seq: 2, CMID: "r"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		w.say(ana, "c", "young")
		time.Sleep(32 * time.Minute)
		pulled := w.pull(session, 0)
		if len(pulled.Convs) != 1 || pulled.Convs[0].Floor != 3 || len(pulled.Convs[0].Events) != 1 || pulled.Convs[0].Events[0].Seq != 4 {
			t.Fatalf("pulled %+v", pulled)
		}
		if n := w.counts("im_retention_removed_total"); n != 3 {
			t.Errorf("im_retention_removed_total is %v", n)
		}
		if sent := w.try(old); !sent.Dup || sent.Seq != 1 {
			t.Errorf("its dedup row is younger than two hours, and a resend got %+v", sent)
		}
		time.Sleep(2 * time.Hour)
		if sent := w.try(old); sent.Err != nil || sent.Dup {
			t.Errorf("its dedup row is gone, and a resend got %+v", sent)
		}
		if sent := w.try(recalled); !sent.Dup || sent.Seq != 2 {
			t.Errorf("a recalled message came back: %+v", sent)
		}
	})
}

func TestNothingIsRemovedUnlessToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.group("c", ana, ben)
		w.say(ana, "c", "old")
		time.Sleep(20 * 365 * 24 * time.Hour)
		if n := len(w.sees(ben, "c")); n != 1 {
			t.Errorf("%d events are left", n)
		}
	})
}

// fullStore always has more to remove, unless it is broken.
type fullStore struct {
	store.Store
	batches atomic.Int64
	largest atomic.Int64
	broken  atomic.Bool
}

func (f *fullStore) Retain(_ context.Context, _ impart.Millis, limit int) (int, bool, error) {
	f.batches.Add(1)
	f.largest.Store(max(f.largest.Load(), int64(limit)))
	if f.broken.Load() {
		return 0, false, errors.New("the disk is full")
	}
	return limit, true, nil
}

func TestRemovingIsPacedAndEndsWithTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := &fullStore{Store: memstore.New(memstore.Options{})}
		local := bus.NewLocal()
		defer local.Close()
		service, err := logic.New(logic.Config{Store: full, Bus: local, Retention: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		if n := full.batches.Load(); n < 5 || n > 20 {
			t.Errorf("%d batches in a second", n)
		}
		if n := full.largest.Load(); n != 5000 {
			t.Errorf("batches of %d rows", n)
		}
		if err := service.Close(); err != nil {
			t.Fatal(err)
		}
		before := full.batches.Load()
		time.Sleep(time.Hour)
		if n := full.batches.Load(); n != before {
			t.Errorf("%d batches after the end", n-before)
		}
	})
}

func TestARoundThatFailsIsFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New(memstore.Options{})
		full := &fullStore{Store: memory}
		full.broken.Store(true)
		w := startWorld(t, memory, func(cfg *logic.Config) { cfg.Store, cfg.Retention = full, time.Hour })
		time.Sleep(3*time.Minute + 11*time.Second)
		if n := w.counts("im_retention_failed_total"); n != 4 {
			t.Errorf("im_retention_failed_total is %v", n)
		}
		if n := w.log.lines(); n != 4 {
			t.Errorf("logged %d lines", n)
		}
	})
}
