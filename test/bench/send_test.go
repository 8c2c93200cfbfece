package bench

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/sqlstore"
)

// The load of T1 and how long each side runs in each round.
const (
	senders       = 256
	conversations = 200
	window        = 3 * time.Second
)

var body = strings.Repeat("m", 150)

// BenchmarkT1Send: durable sends over WebSocket, closed loop, against the same
// path with one transaction a message, and against Append called directly.
// Reach: ≥ 8 × single, ≥ 60 % of raw.
func BenchmarkT1Send(b *testing.B) {
	grouped := newSendLoad(b, sqlstore.Options{})
	single := newSendLoad(b, sqlstore.Options{NoGroupCommit: true})
	raw := newSendLoad(b, sqlstore.Options{})
	for b.Loop() {
		var g, s, r []float64
		for range rounds {
			g = append(g, grouped.overWebSocket(b))
			s = append(s, single.overWebSocket(b))
			r = append(r, raw.appendDirectly(b))
		}
		b.ReportMetric(median(g), "sends/s")
		b.ReportMetric(median(s), "single/s")
		b.ReportMetric(median(r), "raw/s")
		b.ReportMetric(median(g)/median(s), "x-single")
		b.ReportMetric(100*median(g)/median(r), "%-of-raw")
	}
	b.ReportMetric(0, "ns/op")
}

// sendLoad is a server with senders and conversations.
type sendLoad struct {
	*stack
	users   []impart.UserID
	clients []*client
	next    atomic.Int64
}

func newSendLoad(b *testing.B, opts sqlstore.Options) *sendLoad {
	l := &sendLoad{stack: newStack(b, opts, nil), users: users(senders)}
	for i := range conversations {
		l.conversation(b, convOf(i), l.users...)
	}
	return l
}

func convOf(i int) impart.ConvID { return impart.ConvID(fmt.Sprintf("c-%03d", i%conversations)) }

// overWebSocket runs the closed loop for a window and returns sends a second.
func (l *sendLoad) overWebSocket(b *testing.B) float64 {
	b.Helper()
	if l.clients == nil {
		for _, u := range l.users {
			l.clients = append(l.clients, dial(b, l.addr, string(u), "d", false))
		}
	}
	var sent atomic.Int64
	var failed atomic.Pointer[error]
	start := time.Now()
	var group sync.WaitGroup
	for i, c := range l.clients {
		group.Go(func() {
			for time.Since(start) < window && failed.Load() == nil {
				n := l.next.Add(1)
				err := c.request(`{"t":"send","rid":"%d","conv":"%s","cmid":"m-%d","body":"%s"}`, n, convOf(i+int(n)), n, body)
				if err != nil {
					failed.Store(&err)
					return
				}
				sent.Add(1)
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
	return float64(sent.Load()) / time.Since(start).Seconds()
}

// appendDirectly calls the store with batches of 256 for a window.
func (l *sendLoad) appendDirectly(b *testing.B) float64 {
	b.Helper()
	sent := 0
	start := time.Now()
	for time.Since(start) < window {
		items := make([]store.Append, 256)
		for i := range items {
			items[i] = l.item(l.users[i%senders], convOf(i), l.next.Add(1))
		}
		for _, a := range l.store.Append(context.Background(), items) {
			check(b, a.Err)
		}
		sent += len(items)
	}
	return float64(sent) / time.Since(start).Seconds()
}

func (l *sendLoad) item(user impart.UserID, conv impart.ConvID, n int64) store.Append {
	cmid := fmt.Sprintf("m-%d", n)
	sum := sha256.Sum256([]byte(cmid))
	return store.Append{
		Kind: impart.KindMsg, Sender: user, Conv: conv, CMID: impart.CMID(cmid), Type: impart.DefaultType, Body: body,
		MID: impart.MID(uuid.Must(uuid.NewV7()).String()), At: impart.Millis(time.Now().UnixMilli()), Hash: [16]byte(sum[:16]),
	}
}

// BenchmarkT3LoneSender: one sender in closed loop against a lone commit on the
// same store. Reach: p50 ≤ 1.3 × a lone commit.
func BenchmarkT3LoneSender(b *testing.B) {
	l := newSendLoad(b, sqlstore.Options{})
	c := dial(b, l.addr, string(l.users[0]), "d", false)
	for b.Loop() {
		var over, alone []time.Duration
		for range 2000 { // turn and turn about
			n := l.next.Add(1)
			start := time.Now()
			check(b, c.request(`{"t":"send","rid":"r","conv":"c-000","cmid":"m-%d","body":"%s"}`, n, body))
			over = append(over, time.Since(start))
			item := l.item(l.users[1], "c-001", l.next.Add(1))
			start = time.Now()
			check(b, l.store.Append(context.Background(), []store.Append{item})[0].Err)
			alone = append(alone, time.Since(start))
		}
		o, a := percentile(over, 0.5), percentile(alone, 0.5)
		b.ReportMetric(float64(o.Microseconds()), "p50-µs")
		b.ReportMetric(float64(a.Microseconds()), "lone-commit-µs")
		b.ReportMetric(float64(o)/float64(a), "x-lone-commit")
	}
	b.ReportMetric(0, "ns/op")
}
