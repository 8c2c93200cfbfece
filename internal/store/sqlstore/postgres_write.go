package sqlstore

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/fault"
)

// The statements that write a batch. The conversations are locked by now, and with
// them the dedup rows and events of what was sent to them; keys are inserted in
// their order, because two batches may want the same ones for two conversations.
var (
	putNext     = counted("conversations", "UPDATE conversations SET next_seq = next_seq + $2::bigint, updated_at = "+pgClock+" WHERE conv_id = ANY($1::text[])", 3)
	putMessages = counted("events", `INSERT INTO events (conv_id, seq, mid, sender, device, cmid, type, body, at, kind)
		SELECT *, 'msg' FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::bigint[])`, 10)
	putEvents = counted("events", `INSERT INTO events (conv_id, seq, mid, sender, device, cmid, type, body, at, kind, ext, target, recalled, subject)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::bigint[],
			$10::text[], $11::bytea[], $12::bigint[], $13::bigint[], $14::text[])`, 15)
	putKeys = counted("msg_dedup", insertKeys, 9)
	// touchKeys fails unless it finds all of its rows: one that was cleaned away since
	// it was read would leave a duplicate without a write (hole 16).
	touchKeys = `WITH touched AS (UPDATE msg_dedup SET seen = seen + 1 WHERE ctid = ANY(ARRAY(
			SELECT d.ctid FROM unnest($1::text[], $2::text[]) AS k (usr, cmid), LATERAL
			(SELECT ctid FROM msg_dedup WHERE cmid = k.cmid AND user_id = k.usr LIMIT 1) AS d)) RETURNING 1)
		SELECT 1 / (CASE WHEN (SELECT count(*) FROM touched) = $3::bigint THEN 1 ELSE 0 END)`
	putCursors = counted("device_cursors", `INSERT INTO device_cursors AS c (user_id, device_id, conv_id, install_epoch, epoch, start_seq, delivered_seq, n, updated_at)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
		ON CONFLICT (user_id, device_id, conv_id) DO UPDATE SET install_epoch = excluded.install_epoch, epoch = excluded.epoch,
		start_seq = excluded.start_seq, delivered_seq = excluded.delivered_seq, n = excluded.n, updated_at = excluded.updated_at`, 10)
	// putReads merges by itself: no lock keeps another device of the user away.
	putReads = `INSERT INTO read_cursors AS r (user_id, conv_id, epoch, read_seq, updated_at)
		SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
		ON CONFLICT (user_id, conv_id) DO UPDATE SET epoch = excluded.epoch, updated_at = excluded.updated_at,
		read_seq = CASE WHEN r.epoch = excluded.epoch THEN greatest(r.read_seq, excluded.read_seq) ELSE excluded.read_seq END
		WHERE r.epoch <= excluded.epoch`
	putCounters = counted("devices", `UPDATE devices AS d SET n = k.n FROM (
			SELECT x.ctid AS place, k.n FROM unnest($1::text[], $2::text[], $3::bigint[]) AS k (usr, device, n), LATERAL
			(SELECT ctid FROM devices WHERE user_id = k.usr AND device_id = k.device LIMIT 1) AS x) AS k
		WHERE d.ctid = k.place`, 4)
)

const insertKeys = `INSERT INTO msg_dedup (user_id, cmid, mid, conv_id, seq, hash, created_at, recalled)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bytea[], $7::bigint[], $8::bigint[])`

// counted is a statement that fails unless it writes as many rows of a table as its
// nth argument says: a trigger, a rule or a policy may leave some out, and a message
// that is answered has to be there. The error is that of a number that is none, so that
// it can say what is wrong.
func counted(table, statement string, nth int) string {
	return fmt.Sprintf(`WITH put AS (%s RETURNING 1), done AS (SELECT count(*) AS n FROM put)
		SELECT CASE WHEN n = $%d::bigint THEN 1 ELSE (n::text || ' of ' || $%[2]d::bigint::text || ' rows of %[3]s were written')::bigint END FROM done`,
		statement, nth, table)
}

// carryOut implements [bulk].
func (t *pgTxn) carryOut(p *plan) error {
	if len(p.recalled) > 0 {
		if err := t.recall(p); err != nil {
			return err
		}
	}
	t.plantedFlush(p)
	t.moveHeads(p)
	if len(p.events) > 0 {
		t.insertEvents(p.events)
	}
	if len(p.keys) > 0 {
		slices.SortFunc(p.keys, func(a, b newKey) int { return compareKeys(a.dedupKey, b.dedupKey) })
		t.insertKeys(p.keys)
	}
	if len(p.touched) > 0 && !fault.Planted(fault.DupUnwritten) {
		touched := slices.Clone(p.touched)
		slices.SortFunc(touched, compareKeys)
		touched = slices.Compact(touched)
		t.later(touchKeys, texts(touched, func(k *dedupKey) impart.UserID { return k.user }),
			texts(touched, func(k *dedupKey) impart.CMID { return k.cmid }), len(touched))
	}
	return nil
}

// plantedFlush lets a commit wait for less than the promise needs, with one of two
// bugs planted. A transaction without a write would wait for no standby; row locks
// write a little.
func (t *pgTxn) plantedFlush(p *plan) {
	switch {
	case fault.Planted(fault.NoFlush):
		t.later("SET LOCAL synchronous_commit = off")
	case fault.Planted(fault.DupUnwritten) && len(p.events) == 0:
		t.later("SET LOCAL synchronous_commit = local")
	}
}

func compareKeys(a, b dedupKey) int {
	return cmp.Or(cmp.Compare(a.cmid, b.cmid), cmp.Compare(a.user, b.user))
}

// moveHeads writes the next seqs: one statement for all conversations that get
// equally many events. A join with the new values could be planned badly.
func (t *pgTxn) moveHeads(p *plan) {
	if len(p.convs) == 0 {
		return
	}
	if fault.Planted(fault.SeqHole) {
		for _, c := range p.convs {
			t.later("UPDATE conversations SET next_seq = $2::bigint WHERE conv_id = $1", c.id, int64(c.next))
		}
		return
	}
	added := map[impart.ConvID]int64{}
	for i := range p.events {
		added[p.events[i].Conv]++
	}
	groups := map[int64][]impart.ConvID{}
	for _, c := range p.convs {
		groups[added[c.id]] = append(groups[added[c.id]], c.id)
	}
	for _, n := range slices.Sorted(maps.Keys(groups)) {
		t.later(putNext, convTexts(groups[n]), n, len(groups[n]))
	}
}

// recall empties the messages that the plan recalls, row by row: there are few.
func (t *pgTxn) recall(p *plan) error {
	for i := range p.recalled {
		if err := t.txn.empty(&p.recalled[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *pgTxn) insertEvents(events []impart.Event) {
	args := []any{
		texts(events, func(ev *impart.Event) impart.ConvID { return ev.Conv }),
		numbers(events, func(ev *impart.Event) impart.Seq { return ev.Seq }),
		texts(events, func(ev *impart.Event) impart.MID { return ev.MID }),
		texts(events, func(ev *impart.Event) impart.UserID { return ev.Sender }),
		texts(events, func(ev *impart.Event) impart.DeviceID { return ev.Device }),
		texts(events, func(ev *impart.Event) impart.CMID { return ev.CMID }),
		texts(events, func(ev *impart.Event) string { return ev.Type }),
		arrayOf(oidBytea, len(events), 160, func(b []byte, i int) ([]byte, bool) { return append(b, events[i].Body...), true }),
		numbers(events, func(ev *impart.Event) impart.Millis { return ev.At }),
	}
	plain := func(ev impart.Event) bool { return ev.Kind == impart.KindMsg && ev.Ext == nil && !ev.Recalled }
	if !slices.ContainsFunc(events, func(ev impart.Event) bool { return !plain(ev) }) { // nearly always
		t.later(putMessages, append(args, len(events))...)
		return
	}
	recall := func(i int) bool { return events[i].Kind == impart.KindRecall }
	t.later(putEvents, append(args,
		texts(events, func(ev *impart.Event) impart.Kind { return ev.Kind }),
		blobs(events, func(ev *impart.Event) []byte { return ev.Ext }),
		arrayOf(oidInt8, len(events), 8, func(b []byte, i int) ([]byte, bool) {
			return binary.BigEndian.AppendUint64(b, uint64(events[i].Target)), recall(i)
		}),
		numbers(events, func(ev *impart.Event) int64 { return flag(ev.Recalled) }),
		arrayOf(oidText, len(events), 36, func(b []byte, i int) ([]byte, bool) { return append(b, events[i].TargetMID...), recall(i) }),
		len(events),
	)...)
}

func flag(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

func (t *pgTxn) insertKeys(keys []newKey) {
	args := []any{
		texts(keys, func(k *newKey) impart.UserID { return k.user }),
		texts(keys, func(k *newKey) impart.CMID { return k.cmid }),
		texts(keys, func(k *newKey) impart.MID { return k.mid }),
		texts(keys, func(k *newKey) impart.ConvID { return k.conv }),
		numbers(keys, func(k *newKey) impart.Seq { return k.seq }),
		blobs(keys, func(k *newKey) []byte { return k.hash.column() }),
		numbers(keys, func(k *newKey) impart.Millis { return k.at }),
		numbers(keys, func(k *newKey) int64 { return flag(k.recalled) }),
	}
	if fault.Planted(fault.NoDedup) { // the table has this guard too
		t.later(insertKeys+" ON CONFLICT DO NOTHING", args...)
		return
	}
	t.later(putKeys, append(args, len(keys))...)
}

// writeMoves implements [bulk].
func (t *pgTxn) writeMoves(m *moves) error {
	if len(m.cursors) > 0 {
		t.putCursors(m.cursors)
	}
	if len(m.reads) > 0 {
		keys := slices.SortedFunc(maps.Keys(m.reads), func(a, b memberKey) int {
			return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.conv, b.conv))
		})
		t.later(putReads, memberUsers(keys), memberConvs(keys),
			numbers(keys, func(k *memberKey) impart.Epoch { return m.reads[*k].epoch }),
			numbers(keys, func(k *memberKey) impart.Seq { return m.reads[*k].seq }),
			numbers(keys, func(*memberKey) impart.Millis { return t.txn.now }))
	}
	if len(m.devices) > 0 {
		keys := slices.Collect(maps.Keys(m.devices)) // which are locked already
		t.later(putCounters, texts(keys, func(k *deviceKey) impart.UserID { return k.user }),
			texts(keys, func(k *deviceKey) impart.DeviceID { return k.device }),
			numbers(keys, func(k *deviceKey) int64 { return m.devices[*k].n }), len(keys))
	}
	return nil
}

func (t *pgTxn) putCursors(rows map[flowKey]*cursorRow) {
	keys := slices.SortedFunc(maps.Keys(rows), func(a, b flowKey) int {
		return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.device, b.device), cmp.Compare(a.conv, b.conv))
	})
	t.later(putCursors,
		texts(keys, func(k *flowKey) impart.UserID { return k.user }),
		texts(keys, func(k *flowKey) impart.DeviceID { return k.device }),
		texts(keys, func(k *flowKey) impart.ConvID { return k.conv }),
		numbers(keys, func(k *flowKey) impart.InstallEpoch { return rows[*k].install }),
		numbers(keys, func(k *flowKey) impart.Epoch { return rows[*k].epoch }),
		numbers(keys, func(k *flowKey) impart.Seq { return rows[*k].start }),
		numbers(keys, func(k *flowKey) impart.Seq { return rows[*k].delivered }),
		numbers(keys, func(k *flowKey) int64 { return rows[*k].n }),
		numbers(keys, func(k *flowKey) impart.Millis { return rows[*k].updated }),
		len(keys),
	)
}

// notify tells the other nodes what the transaction stores, in the transaction: the
// server delivers it once that has committed.
func (t *pgTxn) notify() {
	if t.attempts.mute {
		return
	}
	var messages []bus.Message
	for _, conv := range slices.Sorted(maps.Keys(t.txn.wakes)) {
		messages = append(messages, *t.txn.wakes[conv])
	}
	for len(messages) > 0 {
		var payload []byte
		payload, messages = bus.AppendPayload(nil, t.p.s.opts.Node, messages...)
		t.later("SELECT pg_notify("+bus.NotifyChannel+", ?)", string(payload))
	}
}
