package sqlstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/postgres"
	"github.com/impart-im/impart/internal/store"
)

// pgBenchConvs is the load of T2: 1,000 conversations, or one that is hot.
const pgBenchConvs = 1000

// benchServer is the server of the benchmark that runs; databases are its databases.
var (
	benchServer *postgres.Server
	databases   int
)

// newPgRig is a store in a database of its own.
func newPgRig(b *testing.B, opts Options) *rig {
	b.Helper()
	server := benchServer
	databases++
	name := fmt.Sprint("bench_", databases)
	if err := server.CreateDatabase(context.Background(), name); err != nil {
		b.Fatal(err)
	}
	opts.Notify = true
	s, err := open(context.Background(), server.DSN(name), opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
		if err := server.DropDatabase(context.Background(), name); err != nil {
			b.Error(err)
		}
	})
	return &rig{Store: s, dir: server.DSN(name), body: strings.Repeat("x", benchBody)}
}

// people makes conversations with every sender in each, as populate does, at once.
func (r *rig) people(b *testing.B, convs int) {
	b.Helper()
	pool, err := pgxpool.New(context.Background(), r.dir)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	for _, sql := range []string{
		"INSERT INTO users (user_id) SELECT 'u-' || lpad(u::text, 4, '0') FROM generate_series(0, 255) AS u",
		fmt.Sprintf(`INSERT INTO conversations (conv_id, kind, next_seq, floor, history, members_version, updated_at)
			SELECT 'c-' || lpad(c::text, 4, '0'), 'group', 1, 0, 'from_join', 1, 0 FROM generate_series(0, %d) AS c`, convs-1),
		fmt.Sprintf(`INSERT INTO members (conv_id, user_id, role, from_seq)
			SELECT 'c-' || lpad(c::text, 4, '0'), 'u-' || lpad(u::text, 4, '0'), 'member', 1 FROM generate_series(0, %d) AS c, generate_series(0, 255) AS u`, convs-1),
		"ANALYZE", "CHECKPOINT",
	} {
		if _, err := pool.Exec(context.Background(), sql); err != nil && sql != "CHECKPOINT" {
			b.Fatal(err)
		}
	}
}

// BenchmarkPostgres are the figures of T2 and T3, side by side in one run: appends
// with group commit against a plain writer with one transaction a message, and
// against the same rows written in bulk by nobody who checks anything.
func BenchmarkPostgres(b *testing.B) {
	server, err := postgres.Start(context.Background(), postgres.Options{Settings: map[string]string{"shared_buffers": "256MB", "max_wal_size": "4GB"}})
	if err != nil {
		b.Fatal(err)
	}
	benchServer = server
	defer func() {
		if err := server.Close(); err != nil {
			b.Error(err)
		}
	}()
	for _, convs := range []int{pgBenchConvs, 1} {
		name := fmt.Sprintf("convs=%d", convs)
		b.Run(name+"/senders=256", func(b *testing.B) { benchSendersOn(b, convs, benchSenders) })
		b.Run(name+"/batch=256", func(b *testing.B) { benchBatches(b, convs) })
		b.Run(name+"/raw", func(b *testing.B) { benchRaw(b, convs) })
		b.Run(name+"/plain", func(b *testing.B) { benchPlain(b, convs, benchSenders) })
	}
	b.Run("lone", func(b *testing.B) { benchSendersOn(b, 1, 1) })
	b.Run("lone/plain", func(b *testing.B) { benchPlain(b, 1, 1) })
}

// closedLoop has senders send one message after another until b.N are sent.
func closedLoop(b *testing.B, senders int, send func(user int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for user := range senders {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				send(user)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}

func benchSendersOn(b *testing.B, convs, senders int) {
	r := newPgRig(b, Options{})
	r.people(b, convs)
	before := r.Stats().Commits
	closedLoop(b, senders, func(user int) { r.mustAppend(b, []store.Append{r.msg(user, rand.IntN(convs))}) })
	b.ReportMetric(float64(b.N)/float64(r.Stats().Commits-before), "appends/commit")
}

// benchBatches are four callers with 256 messages a call.
func benchBatches(b *testing.B, convs int) {
	r := newPgRig(b, Options{})
	r.people(b, convs)
	fourCallers(b, r, convs)
}

// fourCallers append 256 messages a call.
func fourCallers(b *testing.B, r *rig, convs int) {
	b.ResetTimer()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for next.Add(256) <= int64(b.N)+256 {
				items := make([]store.Append, 256)
				for i := range items {
					items[i] = r.msg(rand.IntN(benchSenders), rand.IntN(convs))
				}
				r.mustAppend(b, items)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}

// benchRaw writes the rows of 256 messages a transaction on two connections, and
// reads nothing.
func benchRaw(b *testing.B, convs int) {
	r := newPgRig(b, Options{})
	r.people(b, convs)
	engine := r.engine.(*pgEngine)
	seqs := make([]atomic.Int64, convs)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for writer := range 2 {
		wg.Go(func() {
			held, err := engine.writers.Acquire(context.Background())
			if err != nil {
				b.Error(err)
				return
			}
			defer held.Release()
			for next.Add(256) <= int64(b.N)+256 {
				t := &pgTxn{p: engine, held: held, attempts: new(attempts)}
				t.pgSession = newSession(context.Background(), held, pgStatements.begin)
				t.txn = &txn{session: t.pgSession}
				p := &plan{}
				touched := map[int]bool{}
				for range 256 {
					conv := rand.IntN(convs)
					if convs > 1 {
						conv = conv&^1 | writer // each has its own
					}
					a := r.msg(rand.IntN(benchSenders), conv)
					seq := impart.Seq(seqs[conv].Add(1))
					touched[conv] = true
					p.events = append(p.events, impart.Event{Conv: a.Conv, Seq: seq, Kind: a.Kind, MID: a.MID, Sender: a.Sender, Device: a.Device, CMID: a.CMID, Type: a.Type, Body: a.Body, At: a.At})
					p.keys = append(p.keys, newKey{dedupKey{a.Sender, a.CMID}, dedupRow{conv: a.Conv, seq: seq, mid: a.MID, at: a.At}, false})
				}
				for conv := range touched {
					p.convs = append(p.convs, &convState{id: benchConv(conv), next: impart.Seq(seqs[conv].Load()) + 1})
				}
				if err := t.carryOut(p); err != nil {
					b.Error(err)
				}
				if _, err := t.exec(pgStatements.commit); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}

// benchPlain is what one would write without thinking of it: a transaction a
// message, with pgx as it comes.
func benchPlain(b *testing.B, convs, senders int) {
	r := newPgRig(b, Options{})
	r.people(b, convs)
	cfg, err := pgxpool.ParseConfig(r.dir)
	if err != nil {
		b.Fatal(err)
	}
	cfg.MaxConns = pgConns
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	closedLoop(b, senders, func(user int) {
		a := r.msg(user, rand.IntN(convs))
		if err := plainAppend(context.Background(), pool, &a); err != nil {
			b.Error(err)
		}
	})
}

func plainAppend(ctx context.Context, pool *pgxpool.Pool, a *store.Append) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	var seq int64
	if err := tx.QueryRow(ctx, "SELECT from_seq FROM members WHERE conv_id = $1 AND user_id = $2 AND to_seq IS NULL", a.Conv, a.Sender).Scan(&seq); err != nil {
		return err
	}
	err = tx.QueryRow(ctx, "UPDATE conversations SET next_seq = next_seq + 1, updated_at = $2 WHERE conv_id = $1 RETURNING next_seq - 1", a.Conv, int64(a.At)).Scan(&seq)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO events (conv_id, seq, kind, mid, sender, device, cmid, type, body, at)
		VALUES ($1, $2, 'msg', $3, $4, $5, $6, $7, $8, $9)`, a.Conv, seq, a.MID, a.Sender, a.Device, a.CMID, a.Type, []byte(a.Body), int64(a.At)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO msg_dedup (user_id, cmid, mid, conv_id, seq, hash, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
		a.Sender, a.CMID, a.MID, a.Conv, seq, a.Hash[:], int64(a.At)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "SELECT pg_notify('impart', $1)", string(a.Conv)); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
