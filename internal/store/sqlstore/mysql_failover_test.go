package sqlstore

import (
	"context"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/store"
)

// TestMySQLPromotion takes a store through a promotion, and shows it the old primary
// again, as after a machine that was frozen thaws.
func TestMySQLPromotion(t *testing.T) {
	needMySQL(t)
	t.Parallel()
	ctx := t.Context()
	primary := startMySQL(t, mysql.Options{Settings: mysql.Primary()})
	if err := primary.CreateDatabase(ctx, "im"); err != nil {
		t.Fatal(err)
	}
	replica, err := primary.Replica(ctx, mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Close() })
	dsn := primary.DSNAt(primary.Addr()+","+replica.Addr(), "im") + "?connect_timeout=1"
	w := openPgWorld(t, dsn, Options{})
	node := store.Node{ID: "n", Name: "node"}
	w.group("c", "ana")
	if beat, err := w.Beat(ctx, node); err != nil || beat.Replicated {
		t.Errorf("without a synchronous replica the beat is %+v, %v", beat, err)
	}
	if err := primary.Synchronous(ctx); err != nil {
		t.Fatal(err)
	}
	if beat, err := w.Beat(ctx, node); err != nil || !beat.Replicated || beat.Number != 2 {
		t.Errorf("with a synchronous replica the beat is %+v, %v", beat, err)
	}
	first := w.msg("ana", "c", "1", "hi")
	seq := w.sends(first)

	if err := primary.Pause(); err != nil { // frozen: it has not ended, and will be back
		t.Fatal(err)
	}
	// What waits for the frozen server holds nobody up once that is known.
	during := make(chan store.Appended, 1)
	waiting := w.msg("ana", "c", "0", "hi")
	go func() { during <- w.Append(ctx, []store.Append{waiting})[0] }()
	if halt, err := w.Look(ctx); err == nil || halt != nil || w.Halted() != nil {
		t.Errorf("a replica that is none but a replica is taken for a change: %+v, %v", halt, err)
	}
	if err := replica.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	halt := awaitHalt(t, w.Store)
	select {
	case got := <-during:
		if impart.CodeOf(got.Err) != impart.Unavailable {
			t.Errorf("what was under way got %+v", got)
		}
	case <-time.After(time.Second):
		t.Error("what was under way still waits for the frozen server")
	}
	promise := store.Promise{What: store.PromisedMessage, Conv: "c", Seq: seq, MID: first.MID}
	gone := store.Promise{What: store.PromisedMessage, Conv: "c", Seq: seq + 1, MID: "m-2"}
	missing, err := w.Missing(ctx, halt, []store.Promise{promise, gone, {What: store.PromisedBeat, Node: "n", Number: 2}})
	if err != nil || len(missing) != 1 || missing[0] != gone {
		t.Errorf("missing: %+v, %v", missing, err)
	}
	say := func(cmid impart.CMID) store.Appended {
		return w.Append(ctx, []store.Append{w.msg("ana", "c", cmid, "hi")})[0]
	}
	if got := say("2"); impart.CodeOf(got.Err) != impart.Unavailable {
		t.Errorf("before the judgement: %+v", got)
	}
	// The old primary thaws before anybody has judged: it is not gone back to.
	if err := primary.Resume(); err != nil {
		t.Fatal(err)
	}
	w.engine.(*myEngine).servers.last.Store(0) // it is asked first
	if still, err := w.Look(ctx); err != nil || still == nil || still.Now != halt.Now {
		t.Errorf("with the old primary back it finds %+v, %v", still, err)
	}
	judged, err := w.Judge(ctx, halt, store.Verdict{Node: node}, func(b store.Bench) store.Ruling {
		if len(b.Nodes) != 1 || b.Nodes[0].Node != node {
			t.Errorf("alive: %+v", b.Nodes)
		}
		return store.Keep
	})
	if err != nil || judged.Meta != (store.Meta{Epoch: 1, Incarnation: "mariadb-2/0"}) {
		t.Fatalf("judged: %+v, %v", judged, err)
	}
	if got := w.Append(ctx, []store.Append{first})[0]; got.Err != nil || !got.Dup || got.Seq != seq {
		t.Errorf("the resend got %+v", got)
	}
	w.engine.(*myEngine).servers.last.Store(0) // the old primary is asked first
	w.engine.(*myEngine).reset()
	if got := say("3"); got.Err != nil || got.Seq != seq+1 {
		t.Errorf("with the old primary back: %+v", got)
	}
	if n, err := mysql.Ask[int](ctx, replica, "im", "SELECT COUNT(*) FROM events"); err != nil || n != 2 {
		t.Errorf("the new primary has %d events, %v", n, err)
	}
	if err := replica.Kill(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if got := w.Append(short, []store.Append{w.msg("ana", "c", "4", "hi")})[0]; got.Err == nil {
		t.Errorf("with the old primary alone: %+v", got)
	}
	if _, err := w.Look(ctx); err == nil || w.Halted() != nil {
		t.Errorf("the old primary is taken for a change to judge: %v", err)
	}
}

// A backup is put back under the server's own name: its log ends before what was
// acknowledged.
func TestMySQLBackupPutBack(t *testing.T) {
	needMySQL(t)
	t.Parallel()
	ctx := t.Context()
	server := startMySQL(t, mysql.Options{})
	if err := server.CreateDatabase(ctx, "im"); err != nil {
		t.Fatal(err)
	}
	w := openPgWorld(t, server.DSN("im"), Options{})
	w.group("c", "ana")
	w.sends(w.msg("ana", "c", "1", "kept"))
	restore, err := server.Copy(ctx)
	w.must(err)
	for range 3 {
		// The place is looked at now and then: for longer than that messages are answered.
		for until := time.Now().Add(placeEvery); time.Now().Before(until); {
			w.sends(w.msg("ana", "c", impart.CMID(time.Now().String()), "lost"))
		}
	}
	w.must(restore(ctx))
	halt := awaitHalt(t, w.Store)
	if !halt.Behind || halt.Was.Incarnation != halt.Now.Incarnation {
		t.Errorf("halted by %+v", halt)
	}
	judged, err := w.Judge(ctx, halt, store.Verdict{Node: store.Node{ID: "n"}, Behind: true}, func(store.Bench) store.Ruling { return store.Raise })
	if err != nil || !judged.Raised {
		t.Fatalf("judged: %+v, %v", judged, err)
	}
	if seq := w.sends(w.msg("ana", "c", "again", "x")); seq != 2 {
		t.Errorf("the log goes on at %d", seq)
	}
}

// A node that starts after a promotion finds out at once, and can be asked all that a
// start needs to know.
func TestMySQLStartsHalted(t *testing.T) {
	needMySQL(t)
	s := newMySubject(t, newMyPlace(t), Options{})
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
	judged, err := s.now.Judge(t.Context(), halt, store.Verdict{Node: store.Node{ID: "n"}}, func(store.Bench) store.Ruling { return store.Raise })
	if err != nil || !judged.Raised {
		t.Errorf("judged: %+v, %v", judged, err)
	}
	if err := s.now.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// Another store is put in the place of the one that the process began with: nothing is
// judged there, and nothing is read or written until the first is back.
func TestMySQLAnotherStoreInItsPlace(t *testing.T) {
	w, p := newMyWorld(t, Options{Patience: shortPatience})
	w.group("c", "ana")
	w.sends(w.msg("ana", "c", "1", "x"))
	p.exec(t, "UPDATE meta SET store = UUID()")
	p.terminate(t)
	if out := w.Append(t.Context(), []store.Append{w.msg("ana", "c", "2", "x")})[0]; impart.CodeOf(out.Err) != impart.Unavailable {
		t.Errorf("written to another store: %+v", out)
	}
	if _, err := w.Page(t.Context(), store.PageQuery{User: "ana", Conv: "c", Limit: 10, MaxBytes: impart.MaxPage}); impart.CodeOf(err) != impart.Unavailable {
		t.Errorf("read from another store: %v", err)
	}
	if halt, err := w.Look(t.Context()); halt != nil || err == nil {
		t.Errorf("another store is taken for a change to judge: %+v, %v", halt, err)
	}
}
