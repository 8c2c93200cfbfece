package sqlstore

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/store"
)

// The server has two connections for a node that would take sixteen: whatever is read
// and written waits for those, and nothing fails. The log says once what to set.
func TestPostgresTooFewConnectionsAreWaitedFor(t *testing.T) {
	var log lockedBuffer
	w, p := newPgWorld(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	tooFew(t, w, &log, func() {
		p.exec(t, fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT 2", p.name))
		p.terminate(t)
	})
}

func TestMySQLTooFewConnectionsAreWaitedFor(t *testing.T) {
	needMySQL(t)
	server := startMySQL(t, mysql.Options{Settings: hasty})
	p := newMyPlaceOn(t, server)
	var log lockedBuffer
	w := openPgWorld(t, p.dsn(), Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	tooFew(t, w, &log, func() {
		p.exec(t, "SET GLOBAL max_connections = 10") // the least there is; the test's own are among them
		for i := range 7 {
			db, err := server.Open(p.name)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			if err := db.Ping(); err != nil {
				t.Logf("connection %d of somebody else's: %v", i, err)
			}
		}
	})
}

func tooFew(t *testing.T, w *world, log *lockedBuffer, limit func()) {
	w.group("c", "ana", "ben")
	w.sends(w.msg("ana", "c", "first", "x"))
	limit()
	var wg sync.WaitGroup
	for i := range 40 {
		item := w.msg("ana", "c", impart.CMID(fmt.Sprint("m-", i)), "x")
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
			defer cancel()
			for range 5 {
				if _, err := w.Conversation(ctx, "c"); err != nil {
					t.Errorf("a read: %v", err)
					return
				}
			}
			if out := w.Append(ctx, []store.Append{item})[0]; out.Err != nil {
				t.Errorf("a send: %v", out.Err)
			}
		})
	}
	wg.Wait()
	if n := strings.Count(log.String(), "no connection left for this node"); n != 1 {
		t.Errorf("the log says it %d times:\n%s", n, log)
	}
}
