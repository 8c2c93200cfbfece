package checks

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/rows"
	"github.com/impart-im/impart/wire"
)

func members() []lab.Check {
	return []lab.Check{{
		ID: "membership-under-load", Invariant: "D8",
		What:   "A user joins and leaves a busy group again and again, and keeps syncing; every frame that reaches the device is held against the periods in the database.",
		Expect: "not one event, head or hint from outside the user's periods, and every event of them",
		Twins: []lab.Sabotage{
			lab.Planted(fault.SeesAllPush, "pushes ignore membership periods"),
			lab.Planted(fault.SeesAllSync, "pages ignore membership periods"),
		},
		Run: membershipUnderLoad,
	}}
}

const zoe = "u-zoe"

func membershipUnderLoad(ctx context.Context, b *lab.Bench) {
	s := b.Serve("IM_SWEEP_MS=100")
	s.PutConv(ab, ana, ben)
	s.PutConv("c-zoe", zoe) // the user is known
	const periods, each = 8, 25
	phone := b.Device(s.Addr(), ana)
	live := b.Device(s.Addr(), zoe)
	asks := b.DeviceAs(s.Addr(), zoe, "d-asks", "i-1", nil)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // a device that asks for everything, all the time
		for after := impart.Seq(0); ; {
			after = nextPage(ctx, asks, after)
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	n := 0
	send := func(count int) {
		for range count {
			phone.MustSend(ab, cmid("m", n), "hi")
			n++
		}
	}
	for range periods {
		send(each)
		s.Join(ab, zoe)
		send(each)
		s.Leave(ab, zoe)
	}
	send(each)
	b.Pause(300 * time.Millisecond) // pushes and sweeps that were under way
	close(done)
	wg.Wait()
	sees := visibleTo(ctx, b, s, zoe)
	b.Bit("periods", len(s.Periods(ab, zoe)))
	for after := nextPage(ctx, asks, 0); after > 0; { // once more, from the start to the end
		after = nextPage(ctx, asks, after)
	}
	pushed, _ := judgeSeen(b, live, sees)
	_, synced := judgeSeen(b, asks, sees)
	b.Bit("events heard live", pushed)
	b.Bit("events heard in pages", synced)
	b.Wants(synced >= len(sees), "%d of %d visible events came in pages", synced, len(sees))
	b.Saw("%d period(s), %d event(s) of %d visible; %d pushed, %d in pages", periods, len(sees), n+2*periods, pushed, synced)
}

// nextPage asks for the page after a seq and gives where the one after it begins;
// 0 when there is none.
func nextPage(ctx context.Context, d *lab.Device, after impart.Seq) impart.Seq {
	reply, err := d.Ask(ctx, &wire.Sync{Conv: ab, After: &after})
	if err != nil {
		return 0 // not a member yet, or the end of the run
	}
	if page := reply.(*wire.Synced).Page; page.More {
		return page.Through
	}
	return 0
}

// visibleTo are the seqs of ab that a user may see, by the rows of the database.
func visibleTo(ctx context.Context, b *lab.Bench, s *lab.Server, user impart.UserID) map[impart.Seq]bool {
	sees, periods := map[impart.Seq]bool{}, s.Periods(ab, user)
	s.Look(func(db *rows.DB) error {
		events, err := db.Events(ctx, ab)
		for _, e := range events {
			if slices.ContainsFunc(periods, func(p rows.Period) bool { return p.Covers(e.Seq) }) {
				sees[e.Seq] = true
			}
		}
		return err
	})
	return sees
}

// judgeSeen reports what a device heard and must not, and gives how many events
// it heard by push and in pages.
func judgeSeen(b *lab.Bench, d *lab.Device, sees map[impart.Seq]bool) (pushed, paged int) {
	last := impart.Seq(0)
	for seq := range sees {
		last = max(last, seq)
	}
	live, pages := map[impart.Seq]bool{}, map[impart.Seq]bool{}
	saw := func(ev *impart.Event, heard map[impart.Seq]bool, how string) {
		if ev.Conv != ab {
			return
		}
		heard[ev.Seq] = true
		b.Wants(sees[ev.Seq], "%s was given seq %d by %s, which is outside of every period", d.Name, ev.Seq, how)
	}
	told := func(conv impart.ConvID, head impart.Seq, how string) {
		b.Wants(conv != ab || head <= last, "%s was told of head %d by %s and may know of %d", d.Name, head, how, last)
	}
	for _, h := range d.Heard() {
		switch f := h.Frame.(type) {
		case *wire.Event:
			saw(f.Event, live, "push")
		case *wire.Hint:
			told(f.Conv, f.Head, "hint")
		case *wire.Synced:
			told(f.Page.Conv, f.Page.Head, "sync")
			for i := range f.Page.Events {
				saw(&f.Page.Events[i], pages, fmt.Sprint("sync of ", f.RID))
			}
		case *wire.Receipt:
			told(f.Conv, max(f.Delivered, f.Read), "receipt")
		}
	}
	return len(live), len(pages)
}
