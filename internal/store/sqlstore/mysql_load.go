package sqlstore

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/impart-im/impart"
)

const (
	// myClock is the server's clock in ms, whatever the time zones are.
	myClock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000"
	// myGate is locked by whoever writes, before anything else; see [myEngine.window].
	myGate = "SELECT gate FROM gates WHERE gate = TIMESTAMPDIFF(SECOND, '1970-01-01', UTC_TIMESTAMP(6)) MOD 1024 LOCK IN SHARE MODE"
	// myState is the row of meta and the clock. It comes after the locks: who waited
	// for another node's transaction finds what it left.
	myState = "SELECT epoch, incarnation, judged, cleaned, " + myClock + ", store"
)

// load reads what ops need into the writer's caches, what is not there included, so
// that the rules find everything there. Lists of keys go by the primary key, whatever
// the optimizer believes of the size of a table: a walk over all rows would wait for
// those that others have locked.
func (t *myTxn) load(ops []*op) error {
	w := want(ops)
	statements := t.opening()
	ask := func(query string, each func(row) error) {
		statements = append(statements, &myStatement{text: query, each: each})
	}
	moving := w.moving()
	t.loadConvs(w, moving, ask)
	if len(w.acking) > 0 {
		devices := slices.SortedFunc(maps.Keys(w.acking), func(a, b deviceKey) int {
			return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.device, b.device))
		})
		chunks(devices, func(part []deviceKey) {
			ask("SELECT 1 FROM devices FORCE INDEX (PRIMARY) WHERE (user_id, device_id) IN ("+tuples(part,
				func(k *deviceKey) string { return string(k.user) }, func(k *deviceKey) string { return string(k.device) })+
				") ORDER BY user_id, device_id FOR UPDATE", nothing)
		})
	}
	members := sortedMembers(w.members)
	known, unknown := t.txn.guessMembers(members)
	t.askMembers(unknown, ask)
	if len(w.keys) > 0 {
		t.loadKeys(w, ask)
	}
	if len(w.flows) > 0 {
		t.loadFlows(w, ask)
	}
	if err := t.send(append(statements, t.state())...); err != nil {
		return err
	}
	if err := t.still(); err != nil {
		return err
	}
	err := t.txn.checkTails(moving, func(moved []impart.ConvID) error {
		var torn []*myStatement
		t.askTorn(moved, func(query string, each func(row) error) { torn = append(torn, &myStatement{text: query, each: each}) })
		return t.send(torn...)
	})
	if err != nil {
		return err
	}
	err = t.txn.checkMembers(members, known, t.row, func(stale []memberKey) error {
		var again []*myStatement
		t.askMembers(stale, func(query string, each func(row) error) { again = append(again, &myStatement{text: query, each: each}) })
		return t.send(again...)
	})
	if err != nil {
		return err
	}
	return t.loadNewest(w)
}

// nothing is what is done with a row that is only locked.
func nothing(row) error { return nil }

// opening are the statements that begin a transaction: first of all it locks its gate,
// so that whatever it stamps is later than what that says.
func (t *myTxn) opening() []*myStatement {
	if !t.m.flavour.gates {
		return nil
	}
	return []*myStatement{{text: myGate, each: nothing}}
}

// loadDirect begins a transaction of an op that reads row by row.
func (t *myTxn) loadDirect() error {
	if err := t.send(append(t.opening(), t.state())...); err != nil {
		return err
	}
	return t.still()
}

// state asks for the row of meta, and now and then for where the log ends.
func (t *myTxn) state() *myStatement {
	t.place, t.placed = 0, t.m.places.due()
	query := myState
	if t.placed {
		query += ", " + t.m.flavour.place
	}
	return &myStatement{text: query + " FROM meta", each: func(r row) error {
		t.row = history{epoch: impart.Epoch(r.num(0)), incarnation: r.str(1), judged: r.num(2), store: r.str(5)}
		t.txn.meta = &metaRow{epoch: t.row.epoch, incarnation: t.row.incarnation, cleaned: r.num(3) != 0}
		t.txn.now = impart.Millis(r.num(4))
		if t.placed {
			t.place = r.num(6)
		}
		return nil
	}}
}

// still checks what was read against what was accepted.
func (t *myTxn) still() error {
	end := int64(math.MaxInt64)
	if t.placed {
		end = t.m.comparable(t.conn.physical, t.place)
	}
	return t.m.identity.still(t.was, t.conn.physical, end, t.row)
}

type myAsker func(query string, each func(row) error)

func convTuples(convs []impart.ConvID) string {
	return tuples(convs, func(c *impart.ConvID) string { return string(*c) })
}

func (t *myTxn) loadConvs(w *wanted, lock []impart.ConvID, ask myAsker) {
	var look []impart.ConvID
	for _, conv := range slices.Sorted(maps.Keys(w.locked)) {
		t.txn.convs.put(conv, nil)
		if !w.locked[conv] {
			look = append(look, conv)
		}
	}
	keep := func(r row) error {
		c := scanConv(r)
		t.txn.convs.put(c.id, c)
		return nil
	}
	const from = "SELECT " + convColumns + " FROM conversations FORCE INDEX (PRIMARY) WHERE conv_id IN ("
	chunks(lock, func(part []impart.ConvID) { ask(from+convTuples(part)+") ORDER BY conv_id FOR UPDATE", keep) })
	chunks(look, func(part []impart.ConvID) { ask(from+convTuples(part)+")", keep) })
	t.askTorn(t.txn.unsure(lock), ask)
}

// askTorn has it looked which logs do not end where their rows say.
func (t *myTxn) askTorn(convs []impart.ConvID, ask myAsker) {
	chunks(convs, func(part []impart.ConvID) {
		ask("SELECT conv_id FROM conversations AS c FORCE INDEX (PRIMARY) WHERE conv_id IN ("+convTuples(part)+") AND "+isTorn, t.txn.takeTorn)
	})
}

// loadNewest reads the newest recalls of conversations that are only read, for users
// who do not see everything: mostly there are none.
func (t *myTxn) loadNewest(w *wanted) error {
	var parts []string
	seen := map[impart.ConvID]bool{}
	for _, k := range sortedMembers(w.flows) {
		m, _ := t.txn.members.get(k)
		c, _ := t.txn.convs.get(k.conv)
		if m == nil || c == nil || m.periods.All() || w.locked[k.conv] || seen[k.conv] {
			continue
		}
		seen[k.conv] = true
		c.newest = &recallMark{} // unless one is found
		parts = append(parts, interpolate("(SELECT conv_id, seq, target FROM events FORCE INDEX (events_by_kind)"+
			" WHERE conv_id = ? AND kind = 'recall' ORDER BY seq DESC LIMIT 1)", []any{k.conv}))
	}
	var statements []*myStatement
	chunks(parts, func(part []string) {
		statements = append(statements, &myStatement{text: strings.Join(part, " UNION ALL "), each: func(r row) error {
			if c, _ := t.txn.convs.get(impart.ConvID(r.str(0))); c != nil {
				c.newest = &recallMark{r.seq(1), r.seq(2)}
			}
			return nil
		}})
	})
	if len(statements) == 0 {
		return nil
	}
	return t.send(statements...)
}

func memberTuples(keys []memberKey, byUser bool) string {
	conv, user := func(k *memberKey) string { return string(k.conv) }, func(k *memberKey) string { return string(k.user) }
	if byUser {
		return tuples(keys, user, conv)
	}
	return tuples(keys, conv, user)
}

// askMembers has members read.
func (t *myTxn) askMembers(keys []memberKey, ask myAsker) {
	for _, k := range keys {
		t.txn.members.put(k, nil)
	}
	chunks(keys, func(part []memberKey) {
		ask("SELECT conv_id, user_id, role, from_seq, to_seq FROM members FORCE INDEX (PRIMARY) WHERE (conv_id, user_id) IN ("+
			memberTuples(part, false)+") ORDER BY conv_id, user_id, from_seq", t.txn.takeMember)
	})
}

func keyTuples(keys []dedupKey) string {
	return tuples(keys, func(k *dedupKey) string { return string(k.cmid) }, func(k *dedupKey) string { return string(k.user) })
}

// loadKeys locks the rows of keys that are taken: a duplicate's has to be there still
// when it is written (hole 16).
func (t *myTxn) loadKeys(w *wanted, ask myAsker) {
	keys := slices.SortedFunc(maps.Keys(w.keys), compareKeys)
	t.txn.expectKeys(keys)
	chunks(keys, func(part []dedupKey) {
		ask("SELECT user_id, cmid, conv_id, seq, mid, created_at, hash FROM msg_dedup FORCE INDEX (PRIMARY) WHERE (cmid, user_id) IN ("+
			keyTuples(part)+") ORDER BY cmid, user_id FOR UPDATE", t.txn.takeKey)
	})
}

// loadFlows reads the devices of the users, and their cursors.
func (t *myTxn) loadFlows(w *wanted, ask myAsker) {
	users := slices.Sorted(maps.Keys(w.users))
	chunks(users, func(part []impart.UserID) {
		ask("SELECT user_id, device_id, install_epoch, n, session FROM devices FORCE INDEX (PRIMARY) WHERE user_id IN ("+
			tuples(part, func(u *impart.UserID) string { return string(*u) })+")", t.txn.takeDevice)
	})
	keys := slices.SortedFunc(maps.Keys(w.flows), compareFlows)
	t.txn.expectFlows(users, keys)
	chunks(keys, func(part []memberKey) {
		pairs := memberTuples(part, true)
		ask("SELECT c.conv_id, c.user_id, c.device_id, "+cursorColumns+" FROM device_cursors AS c FORCE INDEX (PRIMARY) WHERE (c.user_id, c.conv_id) IN ("+pairs+")", t.txn.takeCursor)
		ask("SELECT conv_id, user_id, epoch, read_seq FROM read_cursors FORCE INDEX (PRIMARY) WHERE (user_id, conv_id) IN ("+pairs+")", t.txn.takeRead)
	})
}

// compareFlows is the order of the keys of cursors.
func compareFlows(a, b memberKey) int {
	return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.conv, b.conv))
}
