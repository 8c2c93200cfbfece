package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/store"
)

// benchMySQL is the server of the benchmark that runs.
var benchMySQL *mysql.Server

// newMyRig is a store in a database of its own.
func newMyRig(b *testing.B, convs int) (*rig, *sql.DB) {
	b.Helper()
	databases++
	name := fmt.Sprint("bench_", databases)
	if err := benchMySQL.CreateDatabase(context.Background(), name); err != nil {
		b.Fatal(err)
	}
	s, err := open(context.Background(), benchMySQL.DSN(name), Options{})
	if err != nil {
		b.Fatal(err)
	}
	pool, err := benchMySQL.OpenAs(name)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		for _, close := range []func() error{s.Close, pool.Close, func() error { return benchMySQL.DropDatabase(context.Background(), name) }} {
			if err := close(); err != nil {
				b.Error(err)
			}
		}
	})
	for _, sql := range []string{
		"INSERT INTO users (user_id) SELECT CONCAT('u-', LPAD(seq, 4, '0')) FROM seq_0_to_255",
		fmt.Sprintf(`INSERT INTO conversations (conv_id, kind, next_seq, floor, history, members_version, updated_at)
			SELECT CONCAT('c-', LPAD(seq, 4, '0')), 'group', 1, 0, 'from_join', 1, 0 FROM seq_0_to_%d`, convs-1),
		fmt.Sprintf(`INSERT INTO members (conv_id, user_id, role, from_seq)
			SELECT CONCAT('c-', LPAD(c.seq, 4, '0')), CONCAT('u-', LPAD(u.seq, 4, '0')), 'member', 1 FROM seq_0_to_%d AS c, seq_0_to_255 AS u`, convs-1),
	} {
		if _, err := pool.Exec(sql); err != nil {
			b.Fatal(err)
		}
	}
	return &rig{Store: s, dir: benchMySQL.DSN(name), body: strings.Repeat("x", benchBody)}, pool
}

// BenchmarkMySQL has appends with group commit beside a plain writer with one
// transaction a message, as BenchmarkPostgres has.
func BenchmarkMySQL(b *testing.B) {
	server, err := mysql.Start(context.Background(), mysql.Options{Settings: map[string]string{"innodb_buffer_pool_size": "256M", "innodb_log_file_size": "1G"}})
	if err != nil {
		b.Fatal(err)
	}
	benchMySQL = server
	defer func() {
		if err := server.Close(); err != nil {
			b.Error(err)
		}
	}()
	for _, convs := range []int{pgBenchConvs, 1} {
		name := fmt.Sprintf("convs=%d", convs)
		b.Run(name+"/senders=256", func(b *testing.B) { benchMySenders(b, convs, benchSenders) })
		b.Run(name+"/batch=256", func(b *testing.B) {
			r, _ := newMyRig(b, convs)
			used := benchMySQL.CPU()
			fourCallers(b, r, convs)
			b.ReportMetric(float64((benchMySQL.CPU()-used).Microseconds())/float64(b.N), "server-µs/append")
		})
		b.Run(name+"/plain=64", func(b *testing.B) { benchMyPlain(b, convs, 64) })
		b.Run(name+"/plain=256", func(b *testing.B) { benchMyPlain(b, convs, benchSenders) })
	}
	b.Run("lone", func(b *testing.B) { benchMySenders(b, 1, 1) })
	b.Run("lone/plain", func(b *testing.B) { benchMyPlain(b, 1, 1) })
}

func benchMySenders(b *testing.B, convs, senders int) {
	r, _ := newMyRig(b, convs)
	before, used := r.Stats().Commits, benchMySQL.CPU()
	closedLoop(b, senders, func(user int) { r.mustAppend(b, []store.Append{r.msg(user, rand.IntN(convs))}) })
	b.ReportMetric(float64((benchMySQL.CPU()-used).Microseconds())/float64(b.N), "server-µs/append")
	b.ReportMetric(float64(b.N)/float64(r.Stats().Commits-before), "appends/commit")
}

// benchMyPlain is what one would write without thinking of it: a transaction a
// message, through database/sql as it comes.
func benchMyPlain(b *testing.B, convs, senders int) {
	r, pool := newMyRig(b, convs)
	pool.SetMaxOpenConns(pgConns)
	pool.SetMaxIdleConns(pgConns)
	used := benchMySQL.CPU()
	closedLoop(b, senders, func(user int) {
		a := r.msg(user, rand.IntN(convs))
		if err := plainMyAppend(context.Background(), pool, &a); err != nil {
			b.Error(err)
		}
	})
	b.ReportMetric(float64((benchMySQL.CPU()-used).Microseconds())/float64(b.N), "server-µs/append")
}

func plainMyAppend(ctx context.Context, pool *sql.DB, a *store.Append) error {
	tx, err := pool.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var seq int64
	err = tx.QueryRowContext(ctx, "SELECT next_seq FROM conversations WHERE conv_id = ? FOR UPDATE", string(a.Conv)).Scan(&seq)
	if err != nil {
		return err
	}
	var from int64
	err = tx.QueryRowContext(ctx, "SELECT from_seq FROM members WHERE conv_id = ? AND user_id = ? AND to_seq IS NULL", string(a.Conv), string(a.Sender)).Scan(&from)
	if err != nil {
		return err
	}
	for _, do := range []struct {
		text string
		args []any
	}{
		{"UPDATE conversations SET next_seq = ?, updated_at = ? WHERE conv_id = ?", []any{seq + 1, int64(a.At), string(a.Conv)}},
		{"INSERT INTO events (conv_id, seq, kind, mid, sender, device, cmid, type, body, at) VALUES (?, ?, 'msg', ?, ?, ?, ?, ?, ?, ?)",
			[]any{string(a.Conv), seq, string(a.MID), string(a.Sender), string(a.Device), string(a.CMID), a.Type, []byte(a.Body), int64(a.At)}},
		{"INSERT INTO msg_dedup (user_id, cmid, mid, conv_id, seq, hash, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
			[]any{string(a.Sender), string(a.CMID), string(a.MID), string(a.Conv), seq, a.Hash[:], int64(a.At)}},
	} {
		if _, err := tx.ExecContext(ctx, do.text, do.args...); err != nil {
			return err
		}
	}
	return tx.Commit()
}
