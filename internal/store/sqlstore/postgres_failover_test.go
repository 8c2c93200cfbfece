package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/postgres"
	"github.com/impart-im/impart/internal/store"
)

// TestPostgresPromotion takes a store through a promotion, and shows it the old
// primary again, as after a machine that was frozen thaws.
func TestPostgresPromotion(t *testing.T) {
	needPostgres(t)
	t.Parallel()
	ctx := t.Context()
	primary, err := postgres.Start(ctx, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = primary.Close() })
	if err := primary.CreateDatabase(ctx, "im"); err != nil {
		t.Fatal(err)
	}
	standby, err := primary.Standby(ctx, "s1", postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Close() })
	if err := primary.Synchronous(ctx, "s1"); err != nil {
		t.Fatal(err)
	}
	dsn := primary.DSNAt(primary.Addr()+","+standby.Addr(), "im") + "&target_session_attrs=read-write"
	s, err := Open(ctx, dsn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	node := store.Node{ID: "n", Name: "node"}
	spec := impart.ConvSpec{Conv: "c", Kind: impart.Group, Members: []impart.Member{{User: "ana"}}}
	if _, _, err := s.PutConversation(ctx, spec, nil); err != nil {
		t.Fatal(err)
	}
	if beat, err := s.Beat(ctx, node); err != nil || !beat.Replicated {
		t.Errorf("with a synchronous standby the beat is %+v, %v", beat, err)
	}
	say := func(cmid impart.CMID) store.Appended {
		return s.Append(ctx, []store.Append{{Kind: impart.KindMsg, Sender: "ana", Conv: "c", CMID: cmid, MID: impart.MID("m-" + cmid), Type: "text", Body: "hi"}})[0]
	}
	first := say("1")
	if first.Err != nil {
		t.Fatal(first.Err)
	}

	if err := primary.Pause(); err != nil { // frozen: it has not ended, and will be back
		t.Fatal(err)
	}
	// What waits for the frozen server holds nobody up once that is known.
	during := make(chan store.Appended, 1)
	go func() { during <- say("0") }()
	if err := standby.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	halt := awaitHalt(t, s)
	select {
	case got := <-during:
		if impart.CodeOf(got.Err) != impart.Unavailable {
			t.Errorf("what was under way got %+v", got)
		}
	case <-time.After(time.Second):
		t.Error("what was under way still waits for the frozen server")
	}
	promise := store.Promise{What: store.PromisedMessage, Conv: "c", Seq: first.Seq, MID: first.MID}
	gone := store.Promise{What: store.PromisedMessage, Conv: "c", Seq: first.Seq + 1, MID: "m-2"}
	missing, err := s.Missing(ctx, halt, []store.Promise{promise, gone, {What: store.PromisedBeat, Node: "n", Number: 1}})
	if err != nil || len(missing) != 1 || missing[0] != gone {
		t.Errorf("missing: %+v, %v", missing, err)
	}
	if got := say("2"); impart.CodeOf(got.Err) != impart.Unavailable {
		t.Errorf("before the judgement: %+v", got)
	}
	judged, err := s.Judge(ctx, halt, store.Verdict{Node: node}, func(b store.Bench) store.Ruling {
		if len(b.Nodes) != 1 || b.Nodes[0].Node != node {
			t.Errorf("alive: %+v", b.Nodes)
		}
		return store.Keep
	})
	if err != nil || judged.Meta.Epoch != 1 {
		t.Fatalf("judged: %+v, %v", judged, err)
	}
	if got := say("1"); got.Err != nil || !got.Dup || got.Seq != first.Seq {
		t.Errorf("the resend got %+v", got)
	}

	// The old primary is back, and the first of the addresses. Its row of meta still
	// says what it has always said.
	if err := primary.Resume(); err != nil {
		t.Fatal(err)
	}
	s.(*Store).engine.(*pgEngine).writers.Reset()
	s.(*Store).engine.(*pgEngine).readers.Reset()
	if got := say("2"); got.Err != nil || got.Seq != 2 {
		t.Errorf("with the old primary back: %+v", got)
	}
	if n, err := postgres.Ask[int](ctx, standby, "im", "SELECT count(*) FROM events"); err != nil || n != 2 {
		t.Errorf("the new primary has %d events, %v", n, err)
	}
	if err := standby.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := say("3"); got.Err == nil {
		t.Errorf("with the old primary alone: %+v", got)
	}
	if _, err := s.Look(ctx); err == nil || s.Halted() != nil {
		t.Errorf("the old primary is taken for a change to judge: %v", err)
	}
}

// awaitHalt looks until the store has found the new server.
func awaitHalt(t *testing.T, s store.Store) *store.Halt {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		look, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		halt, err := s.Look(look)
		cancel()
		if halt != nil {
			return halt
		}
		if err != nil {
			t.Log(err)
		}
	}
	t.Fatal("the store has not halted")
	return nil
}

// A node that starts after a promotion finds out at once, and can be asked all that a
// start needs to know.
func TestPostgresStartsHalted(t *testing.T) {
	needPostgres(t)
	s := newPgSubject(t, newPgPlace(t), Options{})
	if err := s.now.Close(); err != nil {
		t.Fatal(err)
	}
	s.subject().Replace(t)
	s.opts.DedupRetention = true // its index cannot be made now
	s.now = s.open(t)
	t.Cleanup(func() { _ = s.now.Close() })
	if settings, err := s.now.Settings(t.Context()); err != nil || len(settings) == 0 {
		t.Errorf("settings: %v, %v", settings, err)
	}
	halt := s.now.Halted()
	if halt == nil || halt.Judged {
		t.Fatalf("halted by %+v", halt)
	}
	judged, err := s.now.Judge(t.Context(), halt, store.Verdict{Node: store.Node{ID: "n"}}, func(b store.Bench) store.Ruling {
		if len(b.Nodes) != 0 {
			t.Errorf("alive: %+v", b.Nodes)
		}
		return store.Raise
	})
	if err != nil || !judged.Raised {
		t.Errorf("judged: %+v, %v", judged, err)
	}
	if err := s.now.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// What was remembered of members is worth nothing in another history: there the same
// members' version can have come about in another way.
func TestPostgresForgetsMembersWithTheirHistory(t *testing.T) {
	needPostgres(t)
	s := newPgSubject(t, newPgPlace(t), Options{})
	t.Cleanup(func() { _ = s.now.Close() })
	ctx := t.Context()
	spec := impart.ConvSpec{Conv: "c", Kind: impart.Group, Members: []impart.Member{{User: "ana"}, {User: "ben"}}}
	if _, _, err := s.now.PutConversation(ctx, spec, nil); err != nil {
		t.Fatal(err)
	}
	say := func(cmid impart.CMID) error {
		return s.now.Append(ctx, []store.Append{{Kind: impart.KindMsg, Sender: "ben", Conv: "c", CMID: cmid, MID: impart.MID("m-" + cmid), Type: "text", Body: "hi"}})[0].Err
	}
	if err := say("1"); err != nil {
		t.Fatal(err)
	}
	s.exec(t, "UPDATE "+s.name+".members SET to_seq = 1 WHERE user_id = 'ben'")
	s.subject().Replace(t)
	halt := awaitHalt(t, s.now)
	if _, err := s.now.Judge(ctx, halt, store.Verdict{Node: store.Node{ID: "n"}}, func(store.Bench) store.Ruling { return store.Keep }); err != nil {
		t.Fatal(err)
	}
	if err := say("2"); impart.CodeOf(err) != impart.NotMember {
		t.Errorf("who has left in the history that counts got %v", err)
	}
}

// A copy of the database that takes its name, as after a restore beside it, is another
// history, whatever its rows say.
func TestPostgresACopyUnderTheSameNameIsNoticed(t *testing.T) {
	needPostgres(t)
	t.Parallel()
	ctx := t.Context()
	server, err := postgres.Start(ctx, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	if err := server.CreateDatabase(ctx, "im"); err != nil {
		t.Fatal(err)
	}
	w := openPgWorld(t, server.DSN("im"), Options{})
	w.group("c", "ana")
	w.sends(w.msg("ana", "c", "before", "x"))
	for _, sql := range []string{
		"ALTER DATABASE im ALLOW_CONNECTIONS false",
		"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = 'im'",
		"CREATE DATABASE copy TEMPLATE im OWNER " + postgres.Role,
		"ALTER DATABASE im RENAME TO gone", "ALTER DATABASE copy RENAME TO im",
	} {
		if err := server.Exec(ctx, "postgres", sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if got := w.Append(ctx, []store.Append{w.msg("ana", "c", "after", "x")})[0]; impart.CodeOf(got.Err) != impart.Unavailable {
		t.Errorf("a message after the exchange got %+v", got)
	}
	halt := awaitHalt(t, w.Store)
	if halt.Judged {
		t.Errorf("halted by %+v", halt)
	}
	judged, err := w.Judge(ctx, halt, store.Verdict{Node: store.Node{ID: "n"}}, func(store.Bench) store.Ruling { return store.Raise })
	if err != nil || !judged.Raised {
		t.Errorf("judged: %+v, %v", judged, err)
	}
	w.sends(w.msg("ana", "c", "then", "x"))
}

// Another store under the same address is nobody's history: nothing is read or written
// there, and nothing is judged.
func TestPostgresAnotherStoreIsNeverGoneOnWith(t *testing.T) {
	w, p := newPgWorld(t, Options{})
	w.group("c", "ana")
	w.sends(w.msg("ana", "c", "before", "x"))
	other := p.name + "_other"
	p.exec(t, fmt.Sprintf("CREATE SCHEMA %s AUTHORIZATION %s", other, p.name))
	t.Cleanup(func() { p.exec(t, "DROP SCHEMA "+other+" CASCADE") })
	beside := openPgWorld(t, p.dsnIn(other), Options{})
	beside.group("c", "ana")
	swap := func() {
		p.exec(t, fmt.Sprintf("ALTER SCHEMA %[1]s RENAME TO %[1]s_tmp; ALTER SCHEMA %[2]s RENAME TO %[1]s; ALTER SCHEMA %[1]s_tmp RENAME TO %[2]s", p.name, other))
		p.terminate(t)
	}
	query, judge := w.Vouch()
	vouched := func() error {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), p.dsnIn(p.name))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		var says string
		if err := conn.QueryRow(t.Context(), query).Scan(&says); err != nil {
			t.Fatal(err)
		}
		return judge(says)
	}
	if err := vouched(); err != nil {
		t.Errorf("it does not vouch for its own server: %v", err)
	}
	for _, says := range []string{"", "7", "7/00000001.1.2 x s i", "7/00000001.1.2 1 s i"} {
		if impart.CodeOf(judge(says)) != impart.Unavailable {
			t.Errorf("it vouches for a server that says %q", says)
		}
	}
	swap()
	if err := vouched(); impart.CodeOf(err) != impart.Unavailable || !strings.Contains(err.Error(), "another store") {
		t.Errorf("it vouches for another store: %v", err)
	}
	for range 3 {
		if got := w.Append(t.Context(), []store.Append{w.msg("ana", "c", "astray", "x")})[0]; impart.CodeOf(got.Err) != impart.Unavailable {
			t.Errorf("a message to another store got %+v", got)
		}
		if halt := w.Halted(); halt != nil {
			t.Errorf("halted by %+v", halt)
		}
	}
	swap()
	if err := vouched(); err != nil {
		t.Errorf("it does not vouch for its own store that is back: %v", err)
	}
	w.sends(w.msg("ana", "c", "after", "x"))
}
