package bench

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/impart-im/impart/internal/store/sqlstore"
)

// The load of T5.
const (
	devices = 500
	events  = 2000
	// ahead is how many sends the one sender keeps in flight.
	ahead = 64
)

// BenchmarkT5Fanout: one conversation, 500 live devices, one sender at full
// speed, every event stored first, against a bare broadcast of the same bytes
// with the same library. Reach: ≥ 70 %.
func BenchmarkT5Fanout(b *testing.B) {
	for b.Loop() {
		var ours, bare, kept []float64
		for range rounds {
			rate, share := fanout(b)
			ours, kept = append(ours, rate), append(kept, share)
			bare = append(bare, broadcast(b))
		}
		b.ReportMetric(median(ours), "frames/s")
		b.ReportMetric(median(bare), "bare/s")
		b.ReportMetric(100*median(ours)/median(bare), "%-of-bare")
		b.ReportMetric(100*median(kept), "%-pushed")
	}
	b.ReportMetric(0, "ns/op")
}

// fanout returns event frames a second at the devices, and the share of events
// that reached them by push rather than being left to a sync.
func fanout(b *testing.B) (rate, share float64) {
	b.Helper()
	ids := users(devices + 1)
	s := newStack(b, sqlstore.Options{}, nil)
	s.conversation(b, "c-hot", ids...)
	var got atomic.Int64
	var readers sync.WaitGroup
	for _, u := range ids[1:] {
		c := dial(b, s.addr, string(u), "d", true)
		readers.Go(func() { countEvents(c, &got) })
	}
	sender := dial(b, s.addr, string(ids[0]), "d", false)
	start := time.Now()
	slots := make(chan struct{}, ahead)
	var answers sync.WaitGroup
	answers.Go(func() {
		for range events {
			if _, err := sender.next(); err != nil {
				return
			}
			<-slots
		}
	})
	for i := range events {
		slots <- struct{}{}
		check(b, sender.write(fmt.Appendf(nil, `{"t":"send","rid":"r","conv":"c-hot","cmid":"m-%d","body":"%s"}`, i, body)))
	}
	answers.Wait()
	last := settle(&got, devices*events)
	share = float64(got.Load()) / (devices * events)
	return float64(got.Load()) / last.Sub(start).Seconds(), share
}

// settle waits until all have come, or nothing has for a second, and returns
// when the last came.
func settle(got *atomic.Int64, all int64) time.Time {
	seen, last := int64(-1), time.Now()
	for {
		now := got.Load()
		if now != seen {
			seen, last = now, time.Now()
		}
		if now >= all || time.Since(last) > time.Second {
			return last
		}
		time.Sleep(time.Millisecond)
	}
}

var eventStart = []byte(`{"t":"event"`)

func countEvents(c *client, got *atomic.Int64) {
	for {
		frame, err := c.next()
		if err != nil {
			return
		}
		if bytes.HasPrefix(frame, eventStart) {
			got.Add(1)
		}
	}
}

// broadcast writes as many frames of the same size to as many connections, one
// write each, by as many goroutines as there are connections.
func broadcast(b *testing.B) float64 {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(b, err)
	defer listener.Close()
	var got atomic.Int64
	var servers []net.Conn
	for range devices {
		accepted := make(chan net.Conn)
		go func() {
			nc, err := listener.Accept()
			if err != nil {
				close(accepted)
				return
			}
			if _, err := (ws.Upgrader{}).Upgrade(nc); err != nil {
				_ = nc.Close()
			}
			accepted <- nc
		}()
		nc, early, _, err := ws.Dial(b.Context(), "ws://"+listener.Addr().String())
		check(b, err)
		c := &client{nc: nc, read: early}
		c.init()
		servers = append(servers, <-accepted)
		go countEvents(c, &got)
	}
	frame := ws.MustCompileFrame(ws.NewTextFrame(fmt.Appendf(nil,
		`{"t":"event","ev":{"conv":"c-hot","seq":1000,"kind":"msg","mid":"0190a5c4-7b1e-7c3a-8d2f-000000000000","sender":"u-0000","cmid":"m-1000","body":"%s","type":"text","at":1700000000000},"epoch":1}`, body)))
	start := time.Now()
	var writers sync.WaitGroup
	for _, nc := range servers {
		writers.Go(func() {
			for range events / 4 {
				if _, err := nc.Write(frame); err != nil {
					return
				}
			}
		})
	}
	writers.Wait()
	last := settle(&got, devices*events/4)
	for _, nc := range servers {
		_ = nc.Close()
	}
	return float64(got.Load()) / last.Sub(start).Seconds()
}
