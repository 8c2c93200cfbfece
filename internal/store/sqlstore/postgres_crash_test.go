package sqlstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/lab/postgres"
	"github.com/impart-im/impart/internal/store"
)

// newPgWorld is a world in a place of its own.
func newPgWorld(t *testing.T, opts Options) (*world, pgPlace) {
	t.Helper()
	needPostgres(t)
	p := newPgPlace(t)
	return openPgWorld(t, p.dsn(), opts), p
}

func openPgWorld(t *testing.T, dsn string, opts Options) *world {
	t.Helper()
	w := &world{t: t}
	s, err := open(t.Context(), dsn, opts)
	if err != nil {
		t.Fatal(err)
	}
	w.Store = s
	t.Cleanup(func() { w.must(s.Close()) })
	return w
}

// Case 7: every connection of the pools dies while the store is idle. The next
// write and the next read go well all the same.
func TestPostgresConnectionsThatDiedWhileIdle(t *testing.T) {
	w, p := newPgWorld(t, Options{})
	w.group("c", "ana")
	page := store.PageQuery{User: "ana", Conv: "c", Limit: 10, MaxBytes: impart.MaxPage}
	for i := range 5 {
		p.terminate(t)
		if got := w.sends(w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), "x")); got != impart.Seq(i+1) {
			t.Errorf("seq %d, want %d", got, i+1)
		}
		p.terminate(t)
		if _, err := w.Page(t.Context(), page); err != nil {
			t.Errorf("a read: %v", err)
		}
		p.terminate(t)
		if _, err := w.Hello(t.Context(), store.Hello{User: "ana", Device: "d", Install: "x"}); err != nil {
			t.Errorf("a hello: %v", err)
		}
	}
}

// Sessions are ended again and again under load. Every message is answered as
// stored, by whatever attempt, and stands once (D2).
func TestPostgresSessionsEndedUnderLoad(t *testing.T) {
	w, p := newPgWorld(t, Options{})
	w.group("c", "ana")
	var done atomic.Bool
	var wg sync.WaitGroup
	var dups atomic.Int64
	for i := range 8 {
		wg.Go(func() {
			for j := 0; !done.Load(); j++ {
				a := w.msg("ana", "c", impart.CMID(fmt.Sprintf("%d-%d", i, j)), "x")
				out := w.Append(t.Context(), []store.Append{a})[0]
				if out.Err != nil || out.MID != a.MID {
					t.Errorf("cmid %q: %+v", a.CMID, out)
				}
				if out.Dup {
					dups.Add(1)
				}
			}
		})
	}
	for range 15 {
		w.sends(w.msg("ana", "c", impart.CMID(fmt.Sprint("between-", w.ticks.Load())), "x"))
		p.terminate(t)
	}
	done.Store(true)
	wg.Wait()
	if dups.Load() != 0 {
		t.Errorf("%d first answers said that they are duplicates", dups.Load())
	}
	w.whole("ana", "c")
}

// The server is killed, and recovers, under load: what was answered is there, and
// the store goes on without being opened anew.
func TestPostgresCrashKeepsWhatWasAnswered(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), breakable(t)
	w := openPgWorld(t, server.DSN("impart"), Options{Patience: 30 * time.Second})
	w.group("c", "ana")
	var mu sync.Mutex
	answered := map[impart.CMID]store.Appended{}
	var done atomic.Bool
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := 0; !done.Load(); j++ {
				a := w.msg("ana", "c", impart.CMID(fmt.Sprintf("%d-%d", i, j)), "x")
				out := w.Append(context.Background(), []store.Append{a})[0]
				if out.Err != nil || out.Dup || out.MID != a.MID {
					t.Errorf("cmid %q: %+v", a.CMID, out)
					continue
				}
				mu.Lock()
				answered[a.CMID] = out
				mu.Unlock()
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(answered)
	}
	for _, crash := range []func() error{server.Kill, func() error { return server.Stop(ctx, postgres.Immediate) }} {
		before := count()
		waitFor(t, "some more to be answered", func() bool { return count() > before+50 })
		w.must(crash())
		w.must(server.Start(ctx))
	}
	before := count()
	waitFor(t, "some to be answered after the crashes", func() bool { return count() > before+50 })
	done.Store(true)
	wg.Wait()
	events := w.whole("ana", "c")
	for cmid, out := range answered {
		if int(out.Seq) > len(events) || events[out.Seq-1].CMID != cmid || events[out.Seq-1].MID != out.MID {
			t.Fatalf("cmid %q was answered as %+v, and is not there", cmid, out)
		}
	}
	if len(events) != len(answered) {
		t.Errorf("%d events, and %d were answered", len(events), len(answered))
	}
}

// The server waits for a standby that does not come, and is told to stop waiting:
// it commits, and warns. That is no promise (D6): the message is done again, until
// the standby's absence is accepted.
func TestPostgresCommitThatIsNotReplicated(t *testing.T) {
	ctx, server := t.Context(), breakable(t)
	w := openPgWorld(t, server.DSN("impart"), Options{Patience: 30 * time.Second})
	w.group("c", "ana")
	w.must(server.Set(ctx, map[string]string{"synchronous_standby_names": "nobody"}))
	a := w.msg("ana", "c", "k", "x")
	answer := make(chan store.Appended, 1)
	go func() { answer <- w.Append(context.Background(), []store.Append{a})[0] }()
	for range 3 {
		cancelled := 0
		waitFor(t, "the commit to wait", func() bool {
			select {
			case got := <-answer:
				t.Fatalf("answered %+v, and no standby has it", got)
			default:
			}
			n, err := postgres.Ask[int](ctx, server, "postgres",
				"SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND usename = $1", postgres.Role)
			w.must(err)
			cancelled = n
			return cancelled > 0
		})
	}
	w.must(server.Set(ctx, map[string]string{"synchronous_standby_names": ""}))
	if got := <-answer; got.Err != nil || got.Dup || got.Seq != 1 || got.MID != a.MID {
		t.Errorf("got %+v, want it stored at seq 1", got)
	}
	if events := w.whole("ana", "c"); len(events) != 1 {
		t.Errorf("%d events", len(events))
	}
}

// The queue of notifications is full: the message is stored without one.
func TestPostgresFullNotificationQueue(t *testing.T) {
	needPostgres(t)
	p := newPgPlace(t)
	w := openPgWorld(t, p.dsnIn(p.name+",pg_catalog"), Options{Notify: true})
	w.group("c", "ana")
	// It takes eight gigabytes to fill the real one; this stands before it in the
	// search path and says the same.
	p.exec(t, fmt.Sprintf(`CREATE FUNCTION %s.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS
		$$ BEGIN RAISE 'too many notifications in the NOTIFY queue' USING ERRCODE = '54000'; END $$`, p.name))
	p.exec(t, fmt.Sprintf("GRANT ALL ON FUNCTION %s.pg_notify TO %[1]s", p.name))
	p.terminate(t) // plans that know the real one
	w.sends(w.msg("ana", "c", "1", "x"))
	if _, _, err := w.PutMember(t.Context(), "c", impart.Member{User: "ben"}, impart.System, w.stamp); err != nil {
		t.Errorf("a join: %v", err)
	}
	if events := w.whole("ana", "c"); len(events) != 2 {
		t.Errorf("%d events", len(events))
	}
	_, err := postgres.Ask[int](t.Context(), p.server, "postgres", fmt.Sprintf("SELECT 1 FROM %s.pg_notify('a', 'b')", p.name))
	if !fullQueue(err) {
		t.Fatalf("the stand-in said %v: nothing was tried", err)
	}
}

// Other nodes are told of events in the transaction that stores them, and not when
// it is rolled back.
func TestPostgresNotifiesInTheTransaction(t *testing.T) {
	needPostgres(t)
	s := newPgSubject(t, newPgPlace(t), Options{Notify: true, Node: "node-1"})
	w := &world{t: t, Store: s.now}
	t.Cleanup(func() { w.must(s.now.Close()) })
	listener, err := pgx.Connect(t.Context(), s.dsn())
	w.must(err)
	t.Cleanup(func() { w.must(listener.Close(context.Background())) })
	var channel string
	w.must(listener.QueryRow(t.Context(), "SELECT "+bus.NotifyChannel).Scan(&channel))
	_, err = listener.Exec(t.Context(), "LISTEN "+pgx.Identifier{channel}.Sanitize())
	w.must(err)
	hears := func(want string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for {
			n, err := listener.WaitForNotification(ctx)
			if err != nil {
				t.Fatalf("waiting for %s: %v", want, err)
			}
			if got := toldOf(t, n.Payload); got != "" { // others use the channel too
				if got != want {
					t.Fatalf("heard %q, want %q", got, want)
				}
				return
			}
		}
	}
	w.group("c-notify", "ana")
	w.group("c-notify-2", "ana")
	fail := func() error { return fmt.Errorf("rolled back") }
	s.now.opts.around.before.Store(&fail)
	w.Append(t.Context(), []store.Append{w.msg("ana", "c-notify", "lost", "x")})
	s.now.opts.around.before.Store(nil)
	w.must(w.stored(w.msg("ana", "c-notify", "1", "x"), w.msg("ana", "c-notify", "2", "x")))
	hears("c-notify 1..2 members 1")
	_, _, err = w.PutMember(t.Context(), "c-notify", impart.Member{User: "ben"}, impart.System, w.stamp)
	w.must(err)
	hears("c-notify 3..3 members 2")
	w.must(w.stored(w.msg("ana", "c-notify", "2", "x"))) // a duplicate is nothing new
	w.sends(w.msg("ana", "c-notify-2", "4", "x"))
	hears("c-notify-2 1..1 members 1")
}

// toldOf is the one wake of a payload of node-1, in words.
func toldOf(t *testing.T, payload string) string {
	t.Helper()
	origin, messages, err := bus.ParsePayload(payload)
	if err != nil {
		t.Fatal(err)
	}
	if origin != "node-1" {
		return ""
	}
	if len(messages) != 1 || messages[0].Kind != bus.Wake {
		t.Fatalf("heard %+v", messages)
	}
	m := messages[0]
	return fmt.Sprintf("%s %d..%d members %d", m.Conv, m.From, m.Head, m.Members)
}

// breakable is a server of the test's own, with a database "impart".
func breakable(t *testing.T) *postgres.Server {
	t.Helper()
	needPostgres(t)
	server, err := postgres.Start(t.Context(), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := server.CreateDatabase(t.Context(), "impart"); err != nil {
		t.Fatal(err)
	}
	return server
}

// A node that freezes in a transaction holds up those who want its conversations, until
// the server gives up on it: then they go on, and its own message comes after theirs.
func TestPostgresAFrozenTransactionIsGivenUp(t *testing.T) {
	needPostgres(t)
	s := newPgSubject(t, newPgPlace(t), Options{})
	frozen := &world{t: t, Store: s.now}
	t.Cleanup(func() { frozen.must(s.now.Close()) })
	other := openPgWorld(t, s.dsn(), Options{})
	frozen.group("c", "ana")
	reached, thaw := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.subject().OnCommit(func() error {
		once.Do(func() {
			close(reached)
			<-thaw
		})
		return nil
	}, nil)
	late := make(chan store.Appended, 1)
	go func() { late <- frozen.Append(t.Context(), []store.Append{frozen.msg("ana", "c", "late", "x")})[0] }()
	<-reached
	began := time.Now()
	if got := other.sends(other.msg("ana", "c", "now", "x")); got != 1 {
		t.Errorf("beside a frozen transaction seq %d was given, want 1", got)
	}
	if took := time.Since(began); took > idleTimeout+lockTimeout {
		t.Errorf("it took %v", took)
	}
	close(thaw)
	if got := <-late; got.Err != nil || got.Seq != 2 {
		t.Errorf("the message of the node that thawed: %+v", got)
	}
}

// The server is told to commit without the disk while sessions are open: they go on as
// they were, and so do those that come, with a pooler in between or without; more than
// the promise needs is left as it is.
func TestPostgresSessionsKeepThePromiseThroughAReload(t *testing.T) {
	server := breakable(t)
	commits := func(w *world) (value string) {
		w.must(w.direct(t.Context(), func(tx *txn) error {
			return tx.query("SELECT current_setting('synchronous_commit')", func(r row) error { value = r.str(0); return nil })
		}))
		return value
	}
	configure := func(value string) {
		if err := server.Set(t.Context(), map[string]string{"synchronous_commit": value}); err != nil {
			t.Fatal(err)
		}
	}
	own := openPgWorld(t, server.DSN("impart"), Options{})
	pooled := openPgWorld(t, server.DSN("impart"), Options{Pooled: true})
	for range 8 { // every session of the pool, one way or the other
		commits(own)
	}
	configure("off")
	for name, w := range map[string]*world{"own": own, "pooled": pooled, "new": openPgWorld(t, server.DSN("impart"), Options{})} {
		for range 8 {
			if got := commits(w); got != "on" {
				t.Fatalf("%s session: synchronous_commit is %s", name, got)
			}
		}
	}
	configure("remote_apply")
	if got := commits(openPgWorld(t, server.DSN("impart"), Options{})); got != "remote_apply" {
		t.Errorf("a session of a server that asks for more: synchronous_commit is %s", got)
	}
}
