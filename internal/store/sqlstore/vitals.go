package sqlstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// measured runs ask, one round trip that reads the server's clock, and notes what this
// machine's clock showed in the middle of it.
func measured(v *store.Vitals, ask func() error) error {
	began := time.Now()
	err := ask()
	v.Took = time.Since(began)
	v.Asked = began.Add(v.Took / 2)
	return err
}

// selectVitals is what [pgVitals] asks. Every role sees what its own sessions wait
// for, and how many standbys there are, though not which. A session that has been
// given up by its node goes on waiting, and counts.
const selectVitals = `SELECT ` + pgClock + `, current_setting('synchronous_standby_names'),
	(SELECT count(*) FROM pg_stat_replication), count(*),
	coalesce(max(extract(epoch FROM clock_timestamp() - query_start) * 1000), 0)::bigint
	FROM pg_stat_activity WHERE usename = session_user AND wait_event = 'SyncRep' AND clock_timestamp() - query_start > interval '1 second'`

func pgVitals(s session) (v store.Vitals, err error) {
	err = measured(&v, func() error {
		return s.query(selectVitals, func(r row) error {
			v.Now = impart.Millis(r.num(0))
			v.Standby = store.Standby{
				Names: r.str(1), Connected: int(r.num(2)),
				Waiting: int(r.num(3)), Longest: time.Duration(r.num(4)) * time.Millisecond,
			}
			return nil
		})
	})
	return v, err
}

// vitals implements [engine].
func (p *pgEngine) vitals(ctx context.Context) (v store.Vitals, err error) {
	if p.identity.halted() == nil {
		err = p.read(ctx, func(c session) error {
			v, err = pgVitals(c)
			return err
		})
		return v, err
	}
	// The pools refuse, and the connection aside may itself be waiting for a commit.
	conn, err := pgconn.ConnectConfig(ctx, p.forAside())
	if err != nil {
		return v, fmt.Errorf("no connection to the database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return pgVitals(&pgSession{ctx: ctx, conn: conn, link: &pgLink{}})
}

// myVitals asks a server of MySQL: every user sees its own threads.
func myVitals(s session, f *myFlavour) (v store.Vitals, err error) {
	err = measured(&v, func() error {
		return s.query("SELECT "+myClock, func(r row) error { v.Now = impart.Millis(r.num(0)); return nil })
	})
	if err != nil {
		return v, err
	}
	values, err := readMySettings(s)
	if err != nil || !values.semiSync() {
		return v, err
	}
	v.Names = "semi-synchronous"
	err = s.query("SHOW GLOBAL STATUS WHERE Variable_name IN ('Rpl_semi_sync_master_clients', 'Rpl_semi_sync_source_clients')", func(r row) error {
		v.Connected, _ = strconv.Atoi(r.str(1))
		return nil
	})
	if err != nil {
		return v, err
	}
	err = s.query("SHOW PROCESSLIST", func(r row) error {
		if seconds := r.num(5); strings.HasPrefix(r.str(6), "Waiting for semi-sync ACK") && seconds > 0 {
			v.Waiting++
			v.Longest = max(v.Longest, time.Duration(seconds)*time.Second)
		}
		return nil
	})
	return v, err
}

// vitals implements [engine].
func (m *myEngine) vitals(ctx context.Context) (v store.Vitals, err error) {
	if m.identity.halted() == nil {
		err = m.read(ctx, func(c session) error {
			v, err = myVitals(c, m.flavour)
			return err
		})
		return v, err
	}
	conn, err := m.connect(ctx, func(_ context.Context, _ *myConn, server string, _ int64, has history) error {
		return m.identity.older(server, has)
	})
	if err != nil {
		return v, fmt.Errorf("no connection to the database: %w", err)
	}
	defer conn.Close()
	return myVitals(&mySession{ctx: ctx, conn: conn}, m.flavour)
}
