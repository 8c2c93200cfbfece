package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// indexPause is how long a node waits before it looks again whether another one has
// made the indexes. It must not wait in the database: who makes an index beside the
// writers waits for every statement that was begun before.
const indexPause = 200 * time.Millisecond

// index implements [engine]: beside the writers, since it may take long on large
// tables. What an earlier attempt has left half done is thrown away.
func (p *pgEngine) index(ctx context.Context, indexes []index) (err error) {
	conn, err := pgconn.ConnectConfig(ctx, p.forAside())
	if err != nil {
		return fmt.Errorf("no connection to the database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }() // and with it the lock
	if !p.pooled {
		if _, err := ask1(ctx, conn, "SET lock_timeout = 0"); err != nil {
			return err
		}
		for mine := false; !mine; {
			got, err := ask1(ctx, conn, "SELECT pg_try_advisory_lock(hashtextextended('impart indexes ' || current_schema(), 0))")
			if err != nil {
				return err
			}
			if mine = got == "t"; !mine {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(indexPause):
				}
			}
		}
	}
	for _, x := range indexes {
		valid, err := ask1(ctx, conn, "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('"+x.name+"')")
		if err != nil || valid == "t" {
			if err != nil {
				return err
			}
			continue
		}
		if valid == "f" && !p.pooled { // behind a pooler it may be under way on another node
			if _, err := ask1(ctx, conn, "DROP INDEX CONCURRENTLY IF EXISTS "+x.name); err != nil {
				return err
			}
		}
		if _, err := ask1(ctx, conn, "CREATE INDEX CONCURRENTLY IF NOT EXISTS "+x.name+" "+x.on); err != nil {
			return err
		}
	}
	return nil
}

// ask1 runs one statement by itself and gives the first value of its first row, or "".
func ask1(ctx context.Context, conn *pgconn.PgConn, sql string) (string, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	for _, r := range results {
		if len(r.Rows) > 0 {
			return string(r.Rows[0][0]), nil
		}
	}
	return "", nil
}
