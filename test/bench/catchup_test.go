package bench

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/sqlstore"
	"github.com/impart-im/impart/wire"
)

// backlog is how many events the device of T7 is behind.
const backlog = 10_000

// BenchmarkT7CatchUp: 10,000 events pulled and acknowledged by one device, page
// by page, against reading and encoding the same pages straight from the store.
// Reach: ≥ 50 %.
func BenchmarkT7CatchUp(b *testing.B) {
	l := newSendLoad(b, sqlstore.Options{})
	l.conversation(b, "c-long", "u-reader", "u-writer")
	for from := 0; from < backlog; from += 500 {
		items := make([]store.Append, 500)
		for i := range items {
			items[i] = l.item("u-writer", "c-long", l.next.Add(1))
		}
		for _, a := range l.store.Append(context.Background(), items) {
			check(b, a.Err)
		}
	}
	device := 0
	for b.Loop() {
		var pulled, direct []float64
		for range 2 * rounds {
			device++
			pulled = append(pulled, pullAll(b, l.stack, fmt.Sprint("d", device)))
			direct = append(direct, readAll(b, l.stack))
		}
		b.ReportMetric(median(pulled), "events/s")
		b.ReportMetric(median(direct), "direct/s")
		b.ReportMetric(100*median(pulled)/median(direct), "%-of-direct")
	}
	b.ReportMetric(0, "ns/op")
}

// pullAll catches up as a device does: pull a page, ack it, pull the next. It
// pipelines the next pull behind the ack.
func pullAll(b *testing.B, s *stack, device string) float64 {
	b.Helper()
	c := dial(b, s.addr, "u-reader", device, false)
	start := time.Now()
	got := 0
	check(b, c.write([]byte(`{"t":"pull","rid":"p","limit":1000}`)))
	for got < backlog {
		frame, err := c.next()
		check(b, err)
		if !bytes.HasPrefix(frame, []byte(`{"t":"pulled"`)) {
			continue
		}
		got += bytes.Count(frame, []byte(`"kind":"msg"`))
		through := after(b, frame, `"through":`)
		check(b, c.write(fmt.Appendf(nil, `{"t":"ack","rid":"a","conv":"c-long","seq":%d}`, through)))
		check(b, c.write([]byte(`{"t":"pull","rid":"p","limit":1000}`)))
	}
	rate := float64(got) / time.Since(start).Seconds()
	_ = c.nc.Close()
	return rate
}

// after reads the number that follows a name.
func after(b *testing.B, frame []byte, name string) int {
	b.Helper()
	i := bytes.Index(frame, []byte(name))
	if i < 0 {
		b.Fatalf("no %s in %.200s", name, frame)
	}
	digits := frame[i+len(name):]
	end := bytes.IndexAny(digits, ",}")
	n, err := strconv.Atoi(string(digits[:end]))
	check(b, err)
	return n
}

// readAll reads and encodes the same events without a connection.
func readAll(b *testing.B, s *stack) float64 {
	b.Helper()
	start := time.Now()
	got, at := 0, impart.Seq(0)
	var buf []byte
	for got < backlog {
		page, err := s.store.Page(context.Background(), store.PageQuery{User: "u-reader", Conv: "c-long", After: at, Limit: 1000, MaxBytes: impart.MaxPage})
		check(b, err)
		buf = wire.Synced{Page: page}.Append(buf[:0])
		got += len(page.Events)
		at = page.Through
	}
	return float64(got) / time.Since(start).Seconds()
}
