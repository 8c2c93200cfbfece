package bench

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/gateway"
	"github.com/impart-im/impart/internal/store/sqlstore"
)

// BenchmarkT8Sweep: reads of the store per sweep with 20 devices and 50
// conversations, and with 100 times as many, at the same write rate. Reach: no
// more than 10 % growth.
func BenchmarkT8Sweep(b *testing.B) {
	for b.Loop() {
		few := readsPerSweep(b, 20, 50)
		many := readsPerSweep(b, 2000, 5000)
		b.ReportMetric(few, "reads/sweep")
		b.ReportMetric(many, "reads/sweep-at-100x")
		b.ReportMetric(100*(many/few-1), "%-growth")
	}
	b.ReportMetric(0, "ns/op")
}

// readsPerSweep counts read transactions of a server whose devices have all
// caught up and which stores 20 messages a second in one conversation.
func readsPerSweep(b *testing.B, devices, conversations int) float64 {
	b.Helper()
	const sweep = 100 * time.Millisecond
	s := newStack(b, sqlstore.Options{}, func(c *gateway.Config) { c.Sweep = sweep; c.Compare = time.Hour })
	ids := users(devices)
	for i := range conversations {
		s.conversation(b, impart.ConvID(fmt.Sprintf("c-%05d", i)), ids[i%devices], ids[(i+1)%devices])
	}
	for _, u := range ids {
		c := dial(b, s.addr, string(u), "d", true)
		go func() { _, _ = io.Copy(io.Discard, c.nc) }()
	}
	time.Sleep(20 * sweep) // what connecting wrote has left the window
	before := s.store.Stats().Reads
	start := time.Now()
	for i := 0; time.Since(start) < 30*sweep; i++ {
		sent := s.logic.Send(context.Background(), []impart.Send{{Sender: impart.System, Conv: "c-00000", CMID: impart.CMID(fmt.Sprint("m", i)), Body: "x"}})
		check(b, sent[0].Err)
		time.Sleep(50 * time.Millisecond)
	}
	return float64(s.store.Stats().Reads-before) / 30
}
