package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// halted implements [engine].
func (p *pgEngine) halted() (was, now store.Meta, halted bool) { return p.identity.is() }

// judge implements [engine]: on a connection of its own, because the pools refuse
// what is not accepted yet.
func (p *pgEngine) judge(ctx context.Context, keepEpoch bool, now impart.Millis) (err error) {
	if _, _, halted := p.identity.is(); !halted {
		return nil
	}
	conn, err := pgconn.ConnectConfig(ctx, p.bare)
	if err != nil {
		return fmt.Errorf("no connection to the database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	t := &pgSession{ctx: ctx, conn: conn, link: &pgLink{}, queued: []*pgStatement{pgQuery(pgStatements.begin, nil)}}
	server, _, row, err := p.self(t, selectSelf+pgStatements.forUpdate)
	if err != nil {
		return err
	}
	if next, decides := p.identity.accept(server, row, keepEpoch, now); decides {
		t.later("UPDATE meta SET incarnation = ?, judged = ?, epoch = ?", next.incarnation, next.judged, next.epoch)
	}
	end := pgQuery(pgStatements.commit, nil)
	if err := t.send(end); err != nil || end.tag != pgStatements.commit {
		return fmt.Errorf("the judgement may not have been written: %w", errors.Join(err, errors.New(end.tag)))
	}
	return p.check(ctx, conn) // it finds what was decided, here or by somebody else
}
