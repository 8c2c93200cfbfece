package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// The load of T1: 256 senders, 200 conversations, bodies of 150 bytes.
const (
	benchSenders = 256
	benchConvs   = 200
	benchBody    = 150
)

// rig is a store with people and conversations to measure.
type rig struct {
	*Store
	dir  string
	body string
	v4   bool // cmids at random, as in UUID version 4
}

func newRig(tb testing.TB, opts Options) *rig {
	tb.Helper()
	dir := tb.TempDir()
	s, err := open(context.Background(), "sqlite:"+filepath.Join(dir, "impart.db"), opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return &rig{Store: s, dir: dir, body: strings.Repeat("x", benchBody)}
}

func (r *rig) populate(tb testing.TB, convs, users int) {
	tb.Helper()
	var members []impart.Member
	for i := range users {
		members = append(members, impart.Member{User: benchUser(i)})
	}
	var wg sync.WaitGroup
	for i := range convs {
		wg.Go(func() {
			spec := impart.ConvSpec{Conv: benchConv(i), Kind: impart.Group, Members: members}
			if _, _, err := r.PutConversation(context.Background(), spec, nil); err != nil {
				tb.Error(err)
			}
		})
	}
	wg.Wait()
}

// warm has the writer read every membership, as a server that has run for a
// while has done.
func (r *rig) warm(tb testing.TB, convs, users int) {
	tb.Helper()
	for conv := range convs {
		items := make([]store.MarkRead, users)
		for user := range items {
			items[user] = store.MarkRead{User: benchUser(user), Conv: benchConv(conv)}
		}
		for _, out := range r.MarkRead(context.Background(), items) {
			if out.Err != nil {
				tb.Fatal(out.Err)
			}
		}
	}
}

// lite is the engine of a store in SQLite.
func lite(s *Store) *dialect { return s.engine.(*dialect) }

func benchUser(i int) impart.UserID { return impart.UserID(fmt.Sprintf("u-%04d", i)) }
func benchConv(i int) impart.ConvID { return impart.ConvID(fmt.Sprintf("c-%04d", i)) }

// uuid looks like the ids that servers make and clients should: they ascend by
// the millisecond (version 7).
func uuid() string { return uuidAt(uint64(time.Now().UnixMilli())<<16 | rand.Uint64()&0xffff) }

func uuidAt(a uint64) string {
	b := rand.Uint64()
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff)
}

func (r *rig) msg(user, conv int) store.Append {
	a := store.Append{
		Kind: impart.KindMsg, Sender: benchUser(user), Device: "d-phone", Conv: benchConv(conv), CMID: impart.CMID(uuid()),
		Type: impart.DefaultType, Body: r.body, MID: impart.MID(uuid()), At: r.now(),
	}
	if r.v4 {
		a.CMID = impart.CMID(uuidAt(rand.Uint64()))
	}
	a.Hash = [16]byte([]byte(a.CMID)[:16])
	return a
}

func (r *rig) mustAppend(tb testing.TB, items []store.Append) {
	for _, out := range r.Append(context.Background(), items) {
		if out.Err != nil || out.Dup {
			tb.Errorf("append: %+v", out)
		}
	}
}

// fill stores n events, evenly over the conversations.
func (r *rig) fill(tb testing.TB, n, convs int) {
	tb.Helper()
	for n > 0 {
		items := make([]store.Append, min(n, 1000))
		for i := range items {
			items[i] = r.msg(rand.IntN(benchSenders), rand.IntN(convs))
		}
		r.mustAppend(tb, items)
		n -= len(items)
	}
}

func perSecond(b *testing.B, what string, n int) {
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), what+"/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAppend is the raw ceiling: one caller, batches of a size.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		name         string
		batch, convs int
		v4           bool
	}{
		{"batch=1", 1, benchConvs, false}, {"batch=64", 64, benchConvs, false}, {"batch=256", 256, benchConvs, false},
		{"batch=1024", 1024, benchConvs, false}, {"hot/batch=256", 256, 1, false}, {"v4/batch=256", 256, benchConvs, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := newRig(b, Options{})
			r.v4 = c.v4
			r.populate(b, c.convs, benchSenders)
			r.warm(b, c.convs, benchSenders)
			n := 0
			for b.Loop() {
				items := make([]store.Append, c.batch)
				for i := range items {
					items[i] = r.msg(rand.IntN(benchSenders), rand.IntN(c.convs))
				}
				r.mustAppend(b, items)
				n += c.batch
			}
			perSecond(b, "appends", n)
		})
	}
}

// BenchmarkSenders are 256 callers in closed loop, one message a call: with group
// commit, and with a transaction for each message.
func BenchmarkSenders(b *testing.B) {
	for _, c := range []struct {
		name string
		opts Options
	}{{"group", Options{}}, {"single", Options{NoGroupCommit: true}}} {
		b.Run(c.name, func(b *testing.B) {
			r := newRig(b, c.opts)
			r.populate(b, benchConvs, benchSenders)
			r.warm(b, benchConvs, benchSenders)
			var next atomic.Int64
			var wg sync.WaitGroup
			before := r.Stats().Commits
			b.ResetTimer()
			for user := range benchSenders {
				wg.Go(func() {
					for next.Add(1) <= int64(b.N) {
						r.mustAppend(b, []store.Append{r.msg(user, rand.IntN(benchConvs))})
					}
				})
			}
			wg.Wait()
			perSecond(b, "appends", b.N)
			b.ReportMetric(float64(b.N)/float64(r.Stats().Commits-before), "appends/commit")
		})
	}
}

// BenchmarkLone compares a lone Append with a bare commit of the same rows on the
// same connection settings (T3).
func BenchmarkLone(b *testing.B) {
	b.Run("append", func(b *testing.B) {
		r := newRig(b, Options{})
		r.populate(b, 1, 1)
		for b.Loop() {
			r.mustAppend(b, []store.Append{r.msg(0, 0)})
		}
	})
	b.Run("bare", func(b *testing.B) {
		r := newRig(b, Options{})
		r.populate(b, 1, 1)
		err := withConn(context.Background(), lite(r.Store).writer, func(c *conn) error {
			tx := &txn{session: c, writer: &writer{s: r.Store}}
			seq := impart.Seq(0)
			for b.Loop() {
				a := r.msg(0, 0)
				seq++
				_, err := c.exec(sqliteStatements.begin)
				if err == nil {
					err = tx.writeNext(&convState{id: a.Conv, next: seq + 1})
				}
				if err == nil {
					err = tx.insertEvent(&impart.Event{Conv: a.Conv, Seq: seq, Kind: a.Kind, MID: a.MID, Sender: a.Sender, CMID: a.CMID, Type: a.Type, Body: a.Body, At: a.At})
				}
				if err == nil {
					err = tx.insertKey(&newKey{dedupKey{a.Sender, a.CMID}, dedupRow{conv: a.Conv, seq: seq, mid: a.MID, at: a.At}, false})
				}
				if err == nil {
					_, err = c.exec(sqliteStatements.commit)
				}
				if err != nil {
					return err
				}
				lite(r.Store).keeper.committed(c)
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkAdvance acknowledges for many devices at once: each flow four times a
// call, which are merged into one row.
func BenchmarkAdvance(b *testing.B) {
	for _, merge := range []int{1, 4} {
		b.Run(fmt.Sprintf("merge=%d", merge), func(b *testing.B) {
			r := newRig(b, Options{})
			r.populate(b, benchConvs, benchSenders)
			for user := range benchSenders {
				if _, err := r.Hello(context.Background(), store.Hello{User: benchUser(user), Device: "d-phone", Install: "x"}); err != nil {
					b.Fatal(err)
				}
			}
			r.fill(b, 20_000, benchConvs)
			seq, n := impart.Seq(0), 0
			for b.Loop() {
				items := make([]store.Advance, 0, 256*merge)
				for range 256 {
					user, conv := rand.IntN(benchSenders), rand.IntN(benchConvs)
					for i := range merge {
						items = append(items, store.Advance{
							User: benchUser(user), Device: "d-phone", Install: 1, Conv: benchConv(conv), Seq: min(seq+impart.Seq(i), 50),
						})
					}
				}
				for _, out := range r.Advance(context.Background(), items) {
					if out.Err != nil {
						b.Fatal(out.Err)
					}
				}
				n += len(items)
				seq++
			}
			perSecond(b, "acks", n)
		})
	}
}

// BenchmarkCatchUp pulls 10,000 events of one conversation in pages, against a
// bare select; both encode what they read (T7).
func BenchmarkCatchUp(b *testing.B) {
	const events = 10_000
	r := newRig(b, Options{})
	r.populate(b, 20, benchSenders)
	r.fill(b, events*20, 20)
	b.Run("page", func(b *testing.B) {
		n := 0
		for b.Loop() {
			q := store.PageQuery{User: benchUser(1), Conv: benchConv(1), Limit: impart.MaxLimit, MaxBytes: impart.MaxPage}
			for more := true; more; {
				page, err := r.Page(context.Background(), q)
				if err != nil {
					b.Fatal(err)
				}
				encode(b, page.Events)
				n += len(page.Events)
				q.After, more = page.Through, page.More
			}
		}
		perSecond(b, "events", n)
	})
	b.Run("select", func(b *testing.B) {
		n := 0
		for b.Loop() {
			for after := impart.Seq(0); ; after += impart.MaxLimit {
				var events []impart.Event
				err := withConn(context.Background(), lite(r.Store).readers, func(c *conn) error {
					return c.query("SELECT "+eventColumns+" FROM events WHERE conv_id = ? AND seq > ? ORDER BY seq LIMIT ?", func(row row) error {
						events = append(events, scanEvent(row, benchConv(1)))
						return nil
					}, benchConv(1), after, impart.MaxLimit)
				})
				if err != nil {
					b.Fatal(err)
				}
				if len(events) == 0 {
					break
				}
				encode(b, events)
				n += len(events)
			}
		}
		perSecond(b, "events", n)
	})
}

func encode(b *testing.B, events []impart.Event) {
	for i := range events {
		if _, err := json.Marshal(&events[i]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens an empty store, and one with 1,000,000 events that was not
// closed (T10).
func BenchmarkOpen(b *testing.B) {
	b.Run("empty", func(b *testing.B) {
		for b.Loop() {
			s, err := open(context.Background(), dsnIn(b.TempDir()), Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("million", func(b *testing.B) {
		r := newRig(b, Options{})
		r.populate(b, benchConvs, benchSenders)
		began := time.Now()
		r.fill(b, 1_000_000, benchConvs)
		b.Logf("filled in %s", time.Since(began))
		for b.Loop() {
			b.StopTimer()
			dir := crashCopy(b, r.dir)
			b.StartTimer()
			s, err := open(context.Background(), dsnIn(dir), Options{})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := s.Page(context.Background(), store.PageQuery{User: benchUser(1), Conv: benchConv(1), Limit: 100, MaxBytes: impart.MaxPage}); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
}
