package pgbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/pgdial"
)

// minBackoff is what the pauses between attempts to connect start from.
const minBackoff = 50 * time.Millisecond

// errSilent says that a notification to oneself did not come back.
var errSilent = errors.New("a notification to itself did not come back: the connection is half open, or a pooler stands between (IM_LISTEN_STORE should be the database's own address)")

// connect opens a connection of the bus's own. No commit on it waits for a flush:
// hints are not worth one.
func (b *Bus) connect(ctx context.Context, purpose string) (*pgx.Conn, error) {
	db := b.db.Copy()
	db.RuntimeParams["application_name"] = "impart-" + purpose
	b.hosts.Arrange(&db.Config)
	ctx, cancel := context.WithTimeout(ctx, pgdial.Within(&db.Config)+b.patience())
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, db)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "SET synchronous_commit = off"); err != nil {
		b.part(conn)
		return nil, err
	}
	return conn, nil
}

// patience bounds every exchange with the database.
func (b *Bus) patience() time.Duration { return max(b.cfg.Ping, time.Second) }

// part ends a connection and waits, for a while, until nothing of it is left.
func (b *Bus) part(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	_ = conn.Close(ctx) // it may be dead already
	select {
	case <-conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}

// listen opens a connection that listens, and proves that it hears.
func (b *Bus) listen(ctx context.Context) (*listener, error) {
	conn, err := b.connect(ctx, "listen")
	if err != nil {
		return nil, err
	}
	l := &listener{b: b, conn: conn}
	var channel string
	if err = conn.QueryRow(ctx, "SELECT "+bus.NotifyChannel).Scan(&channel); err == nil {
		_, err = conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize())
	}
	if err == nil {
		err = l.ping(ctx)
	}
	for deadline := time.Now().Add(b.patience()); err == nil && l.owed; {
		err = l.wait(ctx, deadline)
		if err == nil && l.owed && !time.Now().Before(deadline) {
			err = errSilent
		}
	}
	if err != nil {
		b.part(conn)
		return nil, err
	}
	return l, nil
}

// hear passes on what other nodes publish, until ctx ends. After each break of the
// connection subscribers are told that they have missed something, as soon as the
// bus hears again: what they make good then is complete, as they will hear of
// everything later.
func (b *Bus) hear(ctx context.Context, l *listener) {
	for {
		err := l.run(ctx)
		b.part(l.conn)
		if ctx.Err() != nil {
			return
		}
		b.set(&b.deaf, err)
		b.metrics.breaks.WithLabelValues("listen").Inc()
		b.log.Warn("the bus hears nothing from other nodes; it connects again, and what is missed meanwhile is then looked for", "err", err)
		if l = b.listenAgain(ctx); l == nil {
			return
		}
		b.set(&b.deaf, nil)
		b.metrics.missed.Inc()
		b.log.Info("the bus hears other nodes again")
		if !fault.Planted(fault.MissedUntold) {
			b.local.Publish(ctx, bus.Message{Kind: bus.Missed})
		}
	}
}

// listenAgain tries until it succeeds; nil when ctx has ended.
func (b *Bus) listenAgain(ctx context.Context) *listener {
	for attempt := 0; b.pause(ctx, attempt); attempt++ {
		l, err := b.listen(ctx)
		if err == nil {
			return l
		}
		b.set(&b.deaf, err)
	}
	return nil
}

// pause waits before an attempt to connect, with full jitter: the nodes that lost
// one database do not come back as one. It is false when ctx has ended.
func (b *Bus) pause(ctx context.Context, attempt int) bool {
	longest := min(b.cfg.MaxBackoff, minBackoff<<min(attempt, 20))
	timer := time.NewTimer(rand.N(longest))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// listener is a connection that listens.
type listener struct {
	b    *Bus
	conn *pgx.Conn
	owed bool // a notification to itself has not come back yet
}

// run hears until the connection breaks or ctx ends.
func (l *listener) run(ctx context.Context) error {
	for {
		next := time.Now().Add(l.b.cfg.Ping)
		for time.Now().Before(next) {
			if err := l.wait(ctx, next); err != nil {
				return err
			}
		}
		if l.owed {
			return errSilent
		}
		if err := l.ping(ctx); err != nil {
			return err
		}
	}
}

// ping asks whether the server is still the store's, sends a notification to itself,
// and asks how full the database's queue is.
func (l *listener) ping(ctx context.Context) error {
	payload, _ := bus.AppendPayload(nil, l.b.cfg.Origin)
	ctx, cancel := context.WithTimeoutCause(ctx, l.b.patience(), errSilent)
	defer cancel()
	query := "NULL"
	if l.b.cfg.Vouch.Judge != nil {
		query = "(" + l.b.cfg.Vouch.Query + ")"
	}
	var backlog float64
	var says *string
	l.owed = true
	err := l.conn.QueryRow(ctx, "SELECT pg_notification_queue_usage(), "+query+"::text, pg_notify("+bus.NotifyChannel+", $1)", string(payload)).Scan(&backlog, &says, nil)
	if isQueueFull(err) {
		// The connection is well. What others tell may be lost; they know, and say so later.
		l.owed, backlog, err = false, 1, l.b.cfg.Vouch.ask(ctx, l.conn.PgConn())
	} else if err == nil && l.b.cfg.Vouch.Judge != nil {
		err = l.b.cfg.Vouch.heard(l.conn.PgConn(), deref(says))
	}
	if err != nil {
		return orCause(ctx, err)
	}
	l.b.mu.Lock()
	l.b.backlog = backlog
	l.b.mu.Unlock()
	return nil
}

// wait passes one notification on, or returns at the deadline with none.
func (l *listener) wait(ctx context.Context, deadline time.Time) error {
	waiting, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	note, err := l.conn.WaitForNotification(waiting)
	if note != nil {
		l.take(note)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case waiting.Err() != nil && !l.conn.IsClosed():
		return nil
	default:
		return err
	}
}

// take delivers what a notification says, unless it is this node's own.
func (l *listener) take(note *pgconn.Notification) {
	origin, messages, err := bus.ParsePayload(note.Payload)
	switch {
	case err != nil:
		l.b.log.Warn("the bus got what it cannot read, from a node of another version or from elsewhere; what it may have said is looked for",
			slog.Any("err", err), slog.Int("bytes", len(note.Payload)))
		l.b.metrics.missed.Inc()
		l.b.local.Publish(context.Background(), bus.Message{Kind: bus.Missed})
	case origin == l.b.cfg.Origin:
		l.owed = l.owed && len(messages) > 0
	default:
		l.b.metrics.heard.Add(float64(len(messages)))
		l.b.local.Publish(context.Background(), messages...)
	}
}

// deref is what p points to, "" for nil.
func deref(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// queueFull is the SQLSTATE of a COMMIT that finds no room for its notifications.
const queueFull = "54000"

func isQueueFull(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == queueFull
}

// orCause is err, with the reason if ctx ended it.
func orCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
