package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// enough is how long a send may take that has to wait for nobody: for one transaction
// that waits in vain, and then some on a busy machine.
const enough = rowWait + 3*time.Second

// hold keeps rows locked, as somebody's own session might, until release.
func (p pgPlace) hold(t *testing.T, lock string) (release func()) {
	t.Helper()
	conn, err := p.server.Connect(t.Context(), "postgres")
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"SET search_path = " + p.name, "BEGIN", lock} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	var once sync.Once
	release = func() {
		once.Do(func() {
			if err := conn.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(release)
	return release
}

// hold is [pgPlace.hold] in MySQL.
func (p myPlace) hold(t *testing.T, lock string) (release func()) {
	t.Helper()
	db, err := p.server.Open(p.name)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin()
	if err == nil {
		_, err = tx.Exec(lock)
	}
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	release = func() {
		once.Do(func() {
			if err := errors.Join(tx.Rollback(), db.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(release)
	return release
}

// manyGroups makes conversations c-0 … with one member, enough for every lane.
func manyGroups(w *world, n int) (convs []impart.ConvID) {
	for i := range n {
		conv := impart.ConvID(fmt.Sprint("c-", i))
		w.group(conv, "ana")
		convs = append(convs, conv)
	}
	return convs
}

// goesOn sends a message to each conversation at each node; none may wait.
func goesOn(t *testing.T, w *world, nodes []*world, convs []impart.ConvID, round string) {
	t.Helper()
	var wg sync.WaitGroup
	for n, node := range nodes {
		for _, conv := range convs {
			item := w.msg("ana", conv, impart.CMID(fmt.Sprint(round, n, conv)), "x")
			wg.Go(func() {
				began := time.Now()
				if out := node.Append(context.Background(), []store.Append{item})[0]; out.Err != nil {
					t.Errorf("node %d, %s: %v", n, conv, out.Err)
				}
				if took := time.Since(began); took > enough {
					t.Errorf("node %d, %s was answered after %v", n, conv, took)
				}
			})
		}
	}
	wg.Wait()
}

// awaitQueue waits until that many writes wait.
func awaitQueue(t *testing.T, w *world, n int) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for w.Stats().Queue < n {
		select {
		case <-look.C:
		case <-t.Context().Done():
			t.Fatal("nothing waits")
		}
	}
}

// Somebody holds one conversation's row for some seconds: what is sent to it waits at
// both nodes, in its order, and everybody else is answered.
func TestPostgresAHeldConversationHoldsUpNoOther(t *testing.T) {
	w, p := newPgWorld(t, Options{Notify: true})
	aHeldConversation(t, w, openPgWorld(t, p.dsn(), Options{Notify: true}), p.hold)
}

func TestMySQLAHeldConversationHoldsUpNoOther(t *testing.T) {
	w, p := newMyWorld(t, Options{})
	aHeldConversation(t, w, openPgWorld(t, p.dsn(), Options{}), p.hold)
}

func aHeldConversation(t *testing.T, w, other *world, hold func(t *testing.T, lock string) (release func())) {
	nodes := []*world{w, other}
	convs := manyGroups(w, 50)
	w.group("held", "ana", "ben")
	release := hold(t, "SELECT 1 FROM conversations WHERE conv_id = 'held' FOR UPDATE")
	var waiting sync.WaitGroup
	sent := make(chan time.Time, 40)
	prev := map[impart.UserID]impart.CMID{}
	says := func(user impart.UserID) store.Append {
		a := w.msg(user, "held", impart.CMID(fmt.Sprint(user, "-", w.ticks.Load())), "x")
		a.Prev, prev[user] = prev[user], a.CMID
		return a
	}
	var call []store.Append // one call of ana, with others beside
	for i := range 5 {
		call = append(call, says("ana"), w.msg("ana", "c-0", impart.CMID(fmt.Sprint("beside-", i)), "x"))
	}
	waiting.Go(func() {
		for i, out := range w.Append(context.Background(), call) {
			if out.Err != nil || out.Dup {
				t.Errorf("message %d of ana: %+v", i, out)
			}
		}
		sent <- time.Now()
	})
	bens := func() { // each by itself, the next one while the one before waits
		typing := time.NewTicker(10 * time.Millisecond)
		defer typing.Stop()
		for i := range 5 {
			<-typing.C
			item := says("ben")
			waiting.Go(func() {
				if out := other.Append(context.Background(), []store.Append{item})[0]; out.Err != nil || out.Dup {
					t.Errorf("message %d of ben: %+v", i, out)
				}
				sent <- time.Now()
			})
		}
	}
	bens()
	for round := range 4 {
		goesOn(t, w, nodes, convs, fmt.Sprint("round-", round))
	}
	if len(sent) > 0 {
		t.Error("a message was sent to a conversation whose row was held")
	}
	released := time.Now()
	release()
	bens() // which must not overtake the others
	waiting.Wait()
	if took := time.Since(released); took > enough {
		t.Errorf("what waited was sent %v after the row was free", took)
	}
	if events := w.whole("ana", "held"); len(events) != 15 {
		t.Errorf("%d events are there, not 15", len(events))
	}
	w.sends(w.msg("ana", "held", "after", "x"))
}

// A row that stands against its own log refuses what is sent to that conversation, with
// a line in the log that says what is wrong; everybody else is answered, and so is the
// conversation once an operator has mended the row.
func TestPostgresADamagedConversationHoldsUpNoOther(t *testing.T) {
	var log lockedBuffer
	w, p := newPgWorld(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	aDamagedConversation(t, w, &log, func(change string) {
		p.exec(t, "UPDATE "+p.name+".conversations SET next_seq = next_seq "+change+" WHERE conv_id = 'hurt'")
	})
}

func TestMySQLADamagedConversationHoldsUpNoOther(t *testing.T) {
	var log lockedBuffer
	w, p := newMyWorld(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	aDamagedConversation(t, w, &log, func(change string) {
		p.exec(t, "UPDATE conversations SET next_seq = next_seq "+change+" WHERE conv_id = 'hurt'")
	})
}

func aDamagedConversation(t *testing.T, w *world, log *lockedBuffer, damage func(change string)) {
	convs := manyGroups(w, 50)
	w.group("hurt", "ana")
	for i := range 3 {
		w.sends(w.msg("ana", "hurt", impart.CMID(fmt.Sprint(i)), "x"))
	}
	damage("- 1")
	for round := range 3 {
		began := time.Now()
		out := w.Append(t.Context(), []store.Append{w.msg("ana", "hurt", "late", "x"), w.msg("ana", "c-0", impart.CMID(fmt.Sprint("r", round)), "x")})
		e := impart.AsError(out[0].Err)
		if e == nil || e.Code != impart.Unavailable || e.RetryAfter == 0 || out[1].Err != nil {
			t.Errorf("the outcomes are %+v", out)
		}
		if took := time.Since(began); took > enough {
			t.Errorf("the refusal took %v", took)
		}
		goesOn(t, w, []*world{w}, convs, fmt.Sprint("round-", round))
	}
	if w.Stats().Failing {
		t.Error("the store says that it fails")
	}
	if got := log.String(); !strings.Contains(got, `next_seq of \"hurt\" is 3`) || strings.Count(got, "level=ERROR") != 1 {
		t.Errorf("the log does not name the damage once:\n%s", got)
	}
	damage("+ 1")
	if seq := w.sends(w.msg("ana", "hurt", "late", "x")); seq != 4 {
		t.Errorf("the message after the mending has seq %d", seq)
	}
	w.whole("ana", "hurt")
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// A device's row that somebody holds keeps its own cursor waiting, a held conversation
// those who change its members, and nobody else.
func TestPostgresHeldDevicesAndChangesHoldUpNoOther(t *testing.T) {
	w, p := newPgWorld(t, Options{})
	for i := range 20 {
		user := impart.UserID(fmt.Sprint("u-", i))
		w.group(impart.ConvID(fmt.Sprint("c-", i)), user)
		w.sends(w.msg(user, impart.ConvID(fmt.Sprint("c-", i)), "1", "x"))
		_, err := w.Hello(t.Context(), store.Hello{User: user, Device: "d", Install: "x"})
		w.must(err)
	}
	acks := func(i int) error {
		n := fmt.Sprint(i)
		return w.Advance(context.Background(), []store.Advance{{User: impart.UserID("u-" + n), Device: "d", Install: 1, Conv: impart.ConvID("c-" + n), Seq: 1}})[0].Err
	}
	release := p.hold(t, "SELECT 1 FROM devices WHERE user_id = 'u-0' FOR UPDATE; SELECT 1 FROM conversations WHERE conv_id IN ('c-0', 'c-1') FOR UPDATE")
	var waiting, beside sync.WaitGroup
	waiting.Go(func() {
		if err := acks(0); err != nil {
			t.Errorf("the ack of the held device: %v", err)
		}
	})
	for i := range 8 { // more than there are writers
		waiting.Go(func() {
			_, _, err := w.PutMember(context.Background(), impart.ConvID(fmt.Sprint("c-", i%2)), impart.Member{User: impart.UserID(fmt.Sprint("new-", i))}, impart.System, w.stamp)
			if err != nil {
				t.Errorf("the change of members %d: %v", i, err)
			}
		})
	}
	awaitQueue(t, w, 4)
	for i := 1; i < 20; i++ {
		beside.Go(func() {
			began := time.Now()
			if err := acks(i); err != nil {
				t.Errorf("the ack of u-%d: %v", i, err)
			}
			_, err := w.Hello(context.Background(), store.Hello{User: impart.UserID(fmt.Sprint("u-", i)), Device: "e", Install: "x"})
			if took := time.Since(began); err != nil || took > 2*enough {
				t.Errorf("u-%d was answered after %v: %v", i, took, err)
			}
		})
	}
	beside.Wait()
	release()
	waiting.Wait()
}

// The one who waits in vain is told so after the store's patience, and nothing of it is
// written later.
func TestPostgresWhoWaitsInVainIsTold(t *testing.T) {
	w, p := newPgWorld(t, Options{Patience: 2 * time.Second})
	w.group("held", "ana")
	release := p.hold(t, "SELECT 1 FROM conversations WHERE conv_id = 'held' FOR UPDATE")
	began := time.Now()
	e := impart.AsError(w.Append(t.Context(), []store.Append{w.msg("ana", "held", "1", "x")})[0].Err)
	if took := time.Since(began); e == nil || e.Code != impart.Unavailable || e.RetryAfter == 0 || took < 2*time.Second || took > 2*time.Second+2*enough {
		t.Errorf("after %v: %+v", took, e)
	}
	release()
	if seq := w.sends(w.msg("ana", "held", "2", "x")); seq != 1 {
		t.Errorf("the next message has seq %d: what was given up was written", seq)
	}
}

// What a trigger keeps out of the log was not sent: no message is answered that is not
// there, and no hole is left.
func TestPostgresWhatIsNotWrittenIsNotAnswered(t *testing.T) {
	w, p := newPgWorld(t, Options{})
	w.group("c", "ana")
	p.exec(t, fmt.Sprintf(`CREATE FUNCTION %[1]s.drops() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN IF NEW.seq = 20 THEN RETURN NULL; END IF; RETURN NEW; END$$;
		CREATE TRIGGER drops BEFORE INSERT ON %[1]s.events FOR EACH ROW EXECUTE FUNCTION %[1]s.drops()`, p.name))
	var items []store.Append
	for i := range 25 {
		items = append(items, w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), "x"))
	}
	for i, out := range w.Append(t.Context(), items) {
		if sent := out.Err == nil; sent != (i < 19) {
			t.Errorf("message %d: %+v", i, out)
		}
		if out.Err != nil && i == 19 && !strings.Contains(out.Err.Error(), "0 of 1 rows of events were written") {
			t.Errorf("the error is %v", out.Err)
		}
	}
	if events := w.whole("ana", "c"); len(events) != 19 {
		t.Errorf("%d events are there", len(events))
	}
	p.exec(t, fmt.Sprintf("DROP TRIGGER drops ON %s.events", p.name))
	if seq := w.sends(items[24]); seq != 20 {
		t.Errorf("the message after the trigger has seq %d", seq)
	}
}

// A read that could not have a lock in time, or fell into a deadlock, is made again.
func TestPostgresReadsWaitOutALock(t *testing.T) {
	w, p := newPgWorld(t, Options{})
	w.group("c", "ana")
	impatient := openPgWorld(t, p.dsn()+"&lock_timeout=400", Options{})
	release := p.hold(t, "LOCK TABLE members IN ACCESS EXCLUSIVE MODE")
	time.AfterFunc(600*time.Millisecond, release)
	if _, err := impatient.Audience(t.Context(), "c"); err != nil {
		t.Errorf("the read: %v", err)
	}
}
