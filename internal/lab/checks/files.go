package checks

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/probe"
)

// limitUnseen lowers the limit when the server has already planned with another.
var limitUnseen = lab.Sabotage{Name: "limit-unseen", What: "the server plans with a higher limit of open files than there is"}

func files() []lab.Check {
	return []lab.Check{{
		ID: "fd-exhaustion", Invariant: "D5",
		What:   "A server with 100 file descriptors is stormed by 300 connections; those who were there go on talking, and its HTTP side is asked.",
		Expect: "messages flow, readyz answers, some of the crowd are turned away, and when they leave a newcomer gets in",
		Twins:  []lab.Sabotage{limitUnseen},
		Run:    fdExhaustion,
	}}
}

const fewFiles = 100

func fdExhaustion(ctx context.Context, b *lab.Bench) {
	s := b.NewServer("", "IM_SWEEP_MS=500")
	if !b.Sabotaged(limitUnseen.Name) {
		s.MaxFiles = fewFiles
	}
	s.Start()
	s.PutConv(ab, ana, ben)
	phone, other := b.Device(s.Addr(), ana), b.Device(s.Addr(), ben)
	phone.MustSend(ab, "m-before", "hi")
	if b.Sabotaged(limitUnseen.Name) {
		b.Must(s.Process().LimitFiles(fewFiles))
	}
	var mu sync.Mutex
	var crowd []*probe.Conn
	away := 0
	b.Each(300, func(i int) {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		c, err := probe.Dial(ctx, s.Addr(), nil)
		if err == nil {
			_, _, err = c.Login(ctx, impart.UserID(fmt.Sprint("u-crowd-", i)), "d-1", "i-1", nil)
		}
		mu.Lock()
		defer mu.Unlock()
		if c != nil {
			crowd = append(crowd, c)
		}
		if err != nil {
			away++
		}
	})
	b.Bit("connections turned away", away)
	const messages = 10
	for i := range messages {
		_, err := phone.SendWithin(5*time.Second, ab, cmid("m", i), "hi")
		b.Wants(err == nil, "one who was there cannot send: %v", err)
	}
	_, pushed := other.Hears(5*time.Second, probe.IsEvent(ab, messages+1))
	b.Wants(pushed, "one who was there gets no push")
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(s.URL() + "/readyz")
	ready := err == nil && resp.StatusCode == http.StatusOK
	if err == nil {
		_ = resp.Body.Close()
	}
	b.Wants(ready, "readyz does not answer: %v", err)
	for _, c := range crowd {
		c.Close()
	}
	began := time.Now()
	in := b.Eventually(10*time.Second, func() bool {
		_, err := b.TryDevice(s.Addr(), "u-new", "d-1", "i-1", nil)
		return err == nil
	})
	b.Wants(in, "a newcomer does not get in after the crowd has left")
	b.Saw("%d of 300 turned away, %d message(s) delivered meanwhile: %v, readyz %v, a newcomer got in after %d ms",
		away, messages, pushed, ready, time.Since(began).Milliseconds())
}
