package checks

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/rows"
)

func storms() []lab.Check {
	return []lab.Check{
		{
			ID: "retry-storm", Invariant: "D2",
			What:   "The server is frozen while 8 users send one message each from 5 devices, 10 times on each; then everything reaches it at once.",
			Expect: "one row for each message; of its 50 answers one has dup=false, and all have its seq and mid",
			Twins:  []lab.Sabotage{noDedup},
			Run:    retryStorm,
		},
		{
			ID: "paused-server", Invariant: "D2",
			What:   "The server is stopped (SIGSTOP) for 3 s under load; clients time out, reconnect and send again; then it goes on and meets what had piled up.",
			Expect: "one row for each message, and the receiver has them all within 5 s",
			Twins:  []lab.Sabotage{noDedup},
			Run:    pausedServer,
		},
	}
}

func retryStorm(ctx context.Context, b *lab.Bench) {
	s := b.Serve()
	const users, devices, times = 8, 5, 10
	var names []impart.UserID
	for u := range users {
		names = append(names, impart.UserID(fmt.Sprint("u-", u)))
	}
	s.PutConv(ab, names...)
	phones := make([]*lab.Device, users*devices)
	b.Each(len(phones), func(i int) {
		phones[i] = b.DeviceAs(s.Addr(), names[i/devices], impart.DeviceID(cmid("d", i%devices)), "i-1", nil)
	})
	s.Pause()
	var mu sync.Mutex
	answers := map[impart.UserID][]impart.Sent{}
	thaw := time.AfterFunc(time.Second, s.Resume)
	defer thaw.Stop()
	b.Each(len(phones)*times, func(i int) {
		phone := phones[i/times]
		sent := phone.MustSend(ab, "the-one", "hi")
		mu.Lock()
		defer mu.Unlock()
		answers[phone.User] = append(answers[phone.User], sent)
	})
	b.Bit("repetitions that waited for the frozen server", len(phones)*times-users)
	wrong := 0
	for _, user := range names {
		first := 0
		for _, sent := range answers[user] {
			if !sent.Dup {
				first++
			}
			if sent.MID != answers[user][0].MID || sent.Seq != answers[user][0].Seq {
				wrong++
			}
		}
		b.Wants(first == 1, "%d of %d answer(s) to %s with dup=false, which says that it was stored anew", first, len(answers[user]), user)
	}
	b.Wants(wrong == 0, "%d answer(s) with another message than the first one", wrong)
	n := s.Total()
	b.Wants(n == users, "%d row(s) for %d message(s)", n, users)
	b.Saw("%d answer(s) to %d message(s), %d row(s), %d answer(s) with another message", len(phones)*times, users, n, wrong)
}

func pausedServer(ctx context.Context, b *lab.Bench) {
	s := b.Serve("IM_SWEEP_MS=500")
	s.PutConv(ab, ana, ben)
	b.Device(s.Addr(), ana).MustSend(ab, "m-before", "hi")
	const messages = 20
	var phones []*lab.Device
	for range 3 {
		phones = append(phones, b.DeviceAs(s.Addr(), ana, impart.DeviceID(cmid("d", len(phones))), "i-1", nil))
	}
	other := b.Device(s.Addr(), ben)
	s.Pause()
	thaw := time.AfterFunc(3*time.Second, s.Resume)
	defer thaw.Stop()
	var mu sync.Mutex
	late := 0
	b.Each(messages, func(i int) {
		for attempt := 0; ; attempt++ {
			_, err := phones[attempt%len(phones)].SendWithin(700*time.Millisecond, ab, cmid("m", i), "hi")
			if err == nil {
				return
			}
			mu.Lock()
			late++
			mu.Unlock()
			if attempt == 30 {
				b.Must(err)
			}
		}
	})
	b.Bit("attempts without a reply in time", late)
	complete := b.Eventually(5*time.Second, func() bool { return other.Count(isPush) >= messages || hintedTo(other, messages+1) })
	page := other.Sync(ab, 0)
	n := s.Total()
	b.Wants(n == messages+1, "%d row(s) for %d message(s)", n, messages+1)
	b.Wants(complete && len(page.Events) == messages+1, "the receiver has %d of %d message(s)", len(page.Events), messages+1)
	checkLog(ctx, b, s)
	b.Saw("%d attempt(s) timed out, %d row(s) for %d message(s), the receiver has %d", late, n, messages+1, len(page.Events))
}

// checkLog reports every fault of a server's log.
func checkLog(ctx context.Context, b *lab.Bench, s *lab.Server) {
	s.Look(func(db *rows.DB) error {
		faults, err := db.LogFaults(ctx)
		for _, f := range faults {
			b.Violated("%s", f)
		}
		return err
	})
}
