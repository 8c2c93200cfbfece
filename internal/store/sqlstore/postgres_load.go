package sqlstore

import (
	"cmp"
	"maps"
	"slices"

	"github.com/impart-im/impart"
)

// wanted is all that a batch of ops asks for, each thing once and in the order in
// which every node locks it.
type wanted struct {
	locked  map[impart.ConvID]bool // conversations; true: their next seq may move
	members map[memberKey]bool
	keys    map[dedupKey]bool
	acking  map[deviceKey]bool // devices whose cursors may move
	users   map[impart.UserID]bool
	flows   map[memberKey]bool
}

// moving are the conversations whose next seq may move, in order.
func (w *wanted) moving() (out []impart.ConvID) {
	for _, conv := range slices.Sorted(maps.Keys(w.locked)) {
		if w.locked[conv] {
			out = append(out, conv)
		}
	}
	return out
}

func want(ops []*op) *wanted {
	w := &wanted{
		locked: map[impart.ConvID]bool{}, members: map[memberKey]bool{}, keys: map[dedupKey]bool{},
		acking: map[deviceKey]bool{}, users: map[impart.UserID]bool{}, flows: map[memberKey]bool{},
	}
	for _, o := range ops {
		for i := range o.appends {
			a := &o.appends[i]
			w.locked[a.Conv] = true
			if a.Sender != impart.System {
				w.members[memberKey{a.Conv, a.Sender}] = true
			}
			w.keys[keyOf(a.Sender, a.CMID)] = true
			if a.Prev != "" {
				w.keys[keyOf(a.Sender, a.Prev)] = true
			}
		}
		for i := range o.advances {
			a := &o.advances[i]
			w.acking[deviceKey{a.User, a.Device}] = true
			w.flow(memberKey{a.Conv, a.User})
		}
		for i := range o.reads {
			w.flow(memberKey{o.reads[i].Conv, o.reads[i].User})
		}
	}
	return w
}

func (w *wanted) flow(k memberKey) {
	if _, there := w.locked[k.conv]; !there {
		w.locked[k.conv] = false // it is read, and not locked
	}
	w.members[k], w.flows[k], w.users[k.user] = true, true, true
}

// The queries of a batch. Each is short: one large one over several arrays becomes
// a nested loop over all of them. OFFSET 0 and LIMIT keep the look-up of one key
// apart, so that it is one descent of an index whatever the planner believes of the
// size of a table.
const (
	lockConvs   = "SELECT " + convColumns + " FROM conversations WHERE conv_id = ANY($1::text[]) ORDER BY conv_id FOR NO KEY UPDATE"
	selectConvs = "SELECT " + convColumns + " FROM conversations WHERE conv_id = ANY($1::text[])"
	// selectTorn are those whose log does not end before next_seq. It comes after the
	// locks, and has eyes for what the transactions that it waited for have left.
	selectTorn = "SELECT conv_id FROM conversations AS c WHERE conv_id = ANY($1::text[]) AND " + isTorn
	isTorn     = "next_seq BETWEEN 1 AND 9007199254740991 AND next_seq <> floor + 1" +
		" AND NOT EXISTS (SELECT 1 FROM events AS e WHERE e.conv_id = c.conv_id AND e.seq = c.next_seq - 1)"
	lockDevices = `SELECT 1 FROM unnest($1::text[], $2::text[]) AS k (usr, device), LATERAL
		(SELECT 1 FROM devices WHERE user_id = k.usr AND device_id = k.device FOR NO KEY UPDATE) AS d`
	selectMembers = `SELECT k.conv, k.usr, m.role, m.from_seq, m.to_seq FROM unnest($1::text[], $2::text[]) AS k (conv, usr), LATERAL
		(SELECT role, from_seq, to_seq FROM members WHERE conv_id = k.conv AND user_id = k.usr ORDER BY from_seq OFFSET 0) AS m`
	selectKeys = `SELECT k.usr, k.cmid, d.conv_id, d.seq, d.mid, d.created_at, d.hash FROM unnest($1::text[], $2::text[]) AS k (usr, cmid), LATERAL
		(SELECT conv_id, seq, mid, created_at, hash FROM msg_dedup WHERE cmid = k.cmid AND user_id = k.usr LIMIT 1) AS d`
	selectDevices = "SELECT user_id, device_id, install_epoch, n, session FROM devices WHERE user_id = ANY($1::text[])"
	selectFlows   = `SELECT k.conv, k.usr, c.device_id, ` + cursorColumns + ` FROM unnest($1::text[], $2::text[]) AS k (conv, usr), LATERAL
		(SELECT device_id FROM devices WHERE user_id = k.usr OFFSET 0) AS d, LATERAL
		(SELECT * FROM device_cursors WHERE user_id = k.usr AND device_id = d.device_id AND conv_id = k.conv LIMIT 1) AS c`
	selectReads = `SELECT k.conv, k.usr, r.epoch, r.read_seq FROM unnest($1::text[], $2::text[]) AS k (conv, usr), LATERAL
		(SELECT epoch, read_seq FROM read_cursors WHERE user_id = k.usr AND conv_id = k.conv LIMIT 1) AS r`
	selectNewest = `SELECT k.conv, e.seq, e.target FROM unnest($1::text[]) AS k (conv), LATERAL
		(SELECT seq, target FROM events WHERE conv_id = k.conv AND kind = 'recall' ORDER BY seq DESC LIMIT 1) AS e`
	// selectState is the row of meta, how far the log has come, and the clock. It comes
	// after the locks: who waited for another node's transaction finds what it left.
	selectState = stateColumns + " FROM meta"
	// Behind a pooler the server is asked for each time.
	selectPooledState = stateColumns + ", " + serverName + " FROM meta"
	stateColumns      = "SELECT epoch, incarnation, judged, cleaned, (pg_current_wal_insert_lsn() - '0/0')::bigint, " + pgClock + ", store"
	pgClock           = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
)

// load reads what ops need into the writer's caches, what is not there included, so
// that the rules find everything there.
func (t *pgTxn) load(ops []*op) error {
	w := want(ops)
	var statements []*pgStatement
	ask := func(query string, each func(row) error, args ...any) {
		statements = append(statements, pgQuery(query, each, args...))
	}
	moving := w.moving()
	t.loadConvs(w, moving, ask)
	if len(w.acking) > 0 {
		devices := slices.SortedFunc(maps.Keys(w.acking), func(a, b deviceKey) int {
			return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.device, b.device))
		})
		ask(lockDevices, nil, texts(devices, func(k *deviceKey) impart.UserID { return k.user }),
			texts(devices, func(k *deviceKey) impart.DeviceID { return k.device }))
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
	t.askState(ask)
	if err := t.send(statements...); err != nil {
		return err
	}
	if err := t.p.identity.still(t.was, t.link.physical, t.place, t.row); err != nil {
		return err
	}
	err := t.txn.checkTails(moving, func(moved []impart.ConvID) error {
		return t.send(pgQuery(selectTorn, t.txn.takeTorn, convTexts(moved)))
	})
	if err != nil {
		return err
	}
	return t.txn.checkMembers(members, known, t.row, func(stale []memberKey) (err error) {
		t.askMembers(stale, func(query string, each func(row) error, args ...any) { err = t.send(pgQuery(query, each, args...)) })
		return err
	})
}

// loadDirect begins a transaction of an op that reads row by row. Its number is
// taken before the clock is read: see [Store.Written].
func (t *pgTxn) loadDirect() error {
	statements := []*pgStatement{pgQuery("SELECT pg_current_xact_id()::text", nil)}
	t.askState(func(query string, each func(row) error, args ...any) {
		statements = append(statements, pgQuery(query, each, args...))
	})
	if err := t.send(statements...); err != nil {
		return err
	}
	return t.p.identity.still(t.was, t.link.physical, t.place, t.row)
}

type asker func(query string, each func(row) error, args ...any)

func (t *pgTxn) askState(ask asker) {
	query := selectState
	if t.p.pooled {
		query = selectPooledState
	}
	ask(query, func(r row) error {
		if t.p.pooled {
			t.link.physical = r.str(7)
		}
		t.row = history{epoch: impart.Epoch(r.num(0)), incarnation: r.str(1), judged: r.num(2), store: r.str(6)}
		t.txn.meta = &metaRow{epoch: t.row.epoch, incarnation: t.row.incarnation, cleaned: r.num(3) != 0}
		t.place, t.txn.now = r.num(4), impart.Millis(r.num(5))
		return nil
	})
}

func (t *pgTxn) loadConvs(w *wanted, lock []impart.ConvID, ask asker) {
	var look []impart.ConvID
	for _, conv := range slices.Sorted(maps.Keys(w.locked)) {
		t.txn.convs.put(conv, nil)
		if !w.locked[conv] {
			look = append(look, conv)
		}
	}
	if len(lock) > 0 {
		ask(lockConvs, func(r row) error {
			c := scanConv(r)
			t.txn.convs.put(c.id, c)
			return nil
		}, convTexts(lock))
		if unsure := t.txn.unsure(lock); len(unsure) > 0 {
			ask(selectTorn, t.txn.takeTorn, convTexts(unsure))
		}
	}
	if len(look) > 0 {
		ask(selectConvs, func(r row) error {
			c := scanConv(r)
			c.newest = &recallMark{} // unless one is found
			t.txn.convs.put(c.id, c)
			return nil
		}, convTexts(look))
		ask(selectNewest, func(r row) error {
			if c, _ := t.txn.convs.get(impart.ConvID(r.str(0))); c != nil {
				c.newest = &recallMark{r.seq(1), r.seq(2)}
			}
			return nil
		}, convTexts(look))
	}
}

func convTexts(convs []impart.ConvID) pgArray {
	return texts(convs, func(c *impart.ConvID) impart.ConvID { return *c })
}

// askMembers has members read.
func (t *pgTxn) askMembers(keys []memberKey, ask asker) {
	for _, k := range keys {
		t.txn.members.put(k, nil)
	}
	if len(keys) == 0 {
		return
	}
	ask(selectMembers, t.txn.takeMember, memberConvs(keys), memberUsers(keys))
}

func sortedMembers(set map[memberKey]bool) []memberKey {
	return slices.SortedFunc(maps.Keys(set), compareMembers)
}

func compareMembers(a, b memberKey) int {
	return cmp.Or(cmp.Compare(a.conv, b.conv), cmp.Compare(a.user, b.user))
}

func memberConvs(keys []memberKey) pgArray {
	return texts(keys, func(k *memberKey) impart.ConvID { return k.conv })
}

func memberUsers(keys []memberKey) pgArray {
	return texts(keys, func(k *memberKey) impart.UserID { return k.user })
}

func (t *pgTxn) loadKeys(w *wanted, ask asker) {
	keys := slices.Collect(maps.Keys(w.keys))
	t.txn.expectKeys(keys)
	ask(selectKeys, t.txn.takeKey, texts(keys, func(k *dedupKey) impart.UserID { return k.user }), texts(keys, func(k *dedupKey) impart.CMID { return k.cmid }))
}

// loadFlows reads the devices of the users, and their cursors.
func (t *pgTxn) loadFlows(w *wanted, ask asker) {
	users := slices.Sorted(maps.Keys(w.users))
	ask(selectDevices, t.txn.takeDevice, texts(users, func(u *impart.UserID) impart.UserID { return *u }))
	keys := sortedMembers(w.flows)
	t.txn.expectFlows(users, keys)
	convs, usersOf := memberConvs(keys), memberUsers(keys)
	ask(selectFlows, t.txn.takeCursor, convs, usersOf)
	ask(selectReads, t.txn.takeRead, convs, usersOf)
}
