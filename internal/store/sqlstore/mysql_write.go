package sqlstore

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
)

// What follows the rows of an INSERT that is to replace what is there. VALUES is the
// form that MySQL and MariaDB have in common.
const (
	replaceCursor = ` ON DUPLICATE KEY UPDATE install_epoch = VALUES(install_epoch), epoch = VALUES(epoch),
		start_seq = VALUES(start_seq), delivered_seq = VALUES(delivered_seq), n = VALUES(n), updated_at = VALUES(updated_at)`
	// mergeCursor merges by itself too: the lock of the device holds on one server alone,
	// and on a cluster another one's ack may have come in since the cursor was read. Of
	// two installs or epochs the later one counts (D9). What decides is assigned last.
	mergeCursor = ` ON DUPLICATE KEY UPDATE
		delivered_seq = CASE WHEN ` + laterCursor + ` THEN delivered_seq WHEN ` + sameCursor + ` THEN GREATEST(delivered_seq, VALUES(delivered_seq)) ELSE VALUES(delivered_seq) END,
		n = CASE WHEN install_epoch > VALUES(install_epoch) THEN n WHEN install_epoch = VALUES(install_epoch) THEN GREATEST(n, VALUES(n)) ELSE VALUES(n) END,
		start_seq = CASE WHEN ` + laterCursor + ` THEN start_seq ELSE VALUES(start_seq) END,
		updated_at = VALUES(updated_at),
		epoch = CASE WHEN ` + laterCursor + ` THEN epoch ELSE VALUES(epoch) END,
		install_epoch = GREATEST(install_epoch, VALUES(install_epoch))`
	laterCursor = "install_epoch > VALUES(install_epoch) OR install_epoch = VALUES(install_epoch) AND epoch > VALUES(epoch)"
	sameCursor  = "install_epoch = VALUES(install_epoch) AND epoch = VALUES(epoch)"
	// mergeRead merges by itself: no lock keeps another device of the user away. epoch
	// comes last, since assignments are made in their order.
	mergeRead = ` ON DUPLICATE KEY UPDATE read_seq = CASE WHEN epoch = VALUES(epoch) THEN GREATEST(read_seq, VALUES(read_seq))
		WHEN epoch < VALUES(epoch) THEN VALUES(read_seq) ELSE read_seq END,
		updated_at = CASE WHEN epoch <= VALUES(epoch) THEN VALUES(updated_at) ELSE updated_at END, epoch = GREATEST(epoch, VALUES(epoch))`
)

// insertion is an INSERT of many rows, cut where it would be longer than a packet.
type insertion struct {
	t          *mySession
	head, tail string
	b          []byte
	rows       int
}

func (t *mySession) insertion(head, tail string, rows, size int) *insertion {
	return &insertion{t: t, head: head, tail: tail, b: make([]byte, 0, min(len(head)+rows*size, t.conn.packet))}
}

// row appends the values of one row.
func (n *insertion) row(values ...any) {
	at := len(n.b)
	if n.rows == 0 {
		n.b = append(n.b, n.head...)
		n.b = append(n.b, " VALUES ("...)
	} else {
		n.b = append(n.b, ", ("...)
	}
	for i, v := range values {
		if i > 0 {
			n.b = append(n.b, ',')
		}
		n.b = appendLiteral(n.b, v)
	}
	n.b = append(n.b, ')')
	if n.rows > 0 && len(n.b)+len(n.tail) > n.t.conn.packet/2 {
		last := slices.Clone(n.b[at+len(", ("):])
		n.b = n.b[:at]
		n.done()
		n.b = append(append(append(n.b, n.head...), " VALUES ("...), last...)
	}
	n.rows++
}

// done sends what there is with the next statement that is waited for.
func (n *insertion) done() {
	if n.rows == 0 {
		return
	}
	n.t.queued = append(n.t.queued, &myStatement{text: string(append(n.b, n.tail...))})
	n.b, n.rows = n.b[:0], 0
}

// carryOut implements [bulk].
func (t *myTxn) carryOut(p *plan) error {
	for i := range p.recalled { // row by row: there are few
		if err := t.txn.empty(&p.recalled[i]); err != nil {
			return err
		}
	}
	t.moveHeads(p)
	t.insertEvents(p.events)
	if len(p.keys) > 0 {
		slices.SortFunc(p.keys, func(a, b newKey) int { return compareKeys(a.dedupKey, b.dedupKey) })
		t.insertKeys(p.keys)
	}
	if len(p.touched) > 0 && !fault.Planted(fault.DupUnwritten) {
		touched := slices.Clone(p.touched)
		slices.SortFunc(touched, compareKeys)
		chunks(slices.Compact(touched), func(part []dedupKey) {
			t.later("UPDATE msg_dedup FORCE INDEX (PRIMARY) SET seen = seen + 1 WHERE (cmid, user_id) IN (" + keyTuples(part) + ")")
		})
	}
	return nil
}

// moveHeads writes the next seqs: one statement for all conversations that get
// equally many events.
func (t *myTxn) moveHeads(p *plan) {
	if fault.Planted(fault.SeqHole) {
		for _, c := range p.convs {
			t.later("UPDATE conversations SET next_seq = ? WHERE conv_id = ?", c.next, c.id)
		}
		return
	}
	added := map[impart.ConvID]int{}
	for i := range p.events {
		added[p.events[i].Conv]++
	}
	groups := map[int][]impart.ConvID{}
	for _, c := range p.convs {
		groups[added[c.id]] = append(groups[added[c.id]], c.id)
	}
	for _, n := range slices.Sorted(maps.Keys(groups)) {
		slices.Sort(groups[n])
		chunks(groups[n], func(part []impart.ConvID) {
			t.later("UPDATE conversations FORCE INDEX (PRIMARY) SET next_seq = next_seq + " + strconv.Itoa(n) +
				", updated_at = " + myClock + " WHERE conv_id IN (" + convTuples(part) + ")")
		})
	}
}

func (t *myTxn) insertEvents(events []impart.Event) {
	size := 0
	for i := range events {
		size += 2*(len(events[i].Body)+len(events[i].Ext)) + 400
	}
	if len(events) > 0 {
		size = size/len(events) + 1
	}
	plain := t.insertion("INSERT INTO events (conv_id, seq, kind, mid, sender, device, cmid, type, body, at)", "", len(events), size)
	var other *insertion
	for i := range events {
		ev := &events[i]
		if ev.Kind == impart.KindMsg && ev.Ext == nil && !ev.Recalled { // nearly always
			plain.row(ev.Conv, ev.Seq, ev.Kind, ev.MID, ev.Sender, ev.Device, ev.CMID, ev.Type, ev.Body, ev.At)
			continue
		}
		if other == nil {
			other = t.insertion("INSERT INTO events (conv_id, "+eventColumns+")", "", 1, size)
		}
		var target, subject any
		if ev.Kind == impart.KindRecall {
			target, subject = ev.Target, ev.TargetMID
		}
		other.row(ev.Conv, ev.Seq, ev.Kind, ev.MID, ev.Sender, ev.Device, ev.CMID, ev.Type, ev.Body, ev.Ext, target, ev.Recalled, ev.At, subject, nil)
	}
	plain.done()
	if other != nil {
		other.done()
	}
}

func (t *myTxn) insertKeys(keys []newKey) {
	tail := ""
	if fault.Planted(fault.NoDedup) { // the table has this guard too
		tail = " ON DUPLICATE KEY UPDATE seen = msg_dedup.seen"
	}
	rows := t.insertion("INSERT INTO msg_dedup (user_id, cmid, mid, conv_id, seq, hash, created_at, recalled)", tail, len(keys), 260)
	for i := range keys {
		k := &keys[i]
		rows.row(k.user, k.cmid, k.mid, k.conv, k.seq, k.hash.column(), k.at, k.recalled)
	}
	rows.done()
}

// writeMoves implements [bulk].
func (t *myTxn) writeMoves(m *moves) error {
	if len(m.cursors) > 0 {
		t.putCursors(m.cursors)
	}
	if len(m.reads) > 0 {
		rows := t.insertion("INSERT INTO read_cursors (user_id, conv_id, epoch, read_seq, updated_at)", mergeRead, len(m.reads), 120)
		for _, k := range slices.SortedFunc(maps.Keys(m.reads), compareFlows) {
			rows.row(k.user, k.conv, m.reads[k].epoch, m.reads[k].seq, t.txn.now)
		}
		rows.done()
	}
	t.raiseCounters(m.devices)
	return nil
}

func (t *myTxn) putCursors(rows map[flowKey]*cursorRow) {
	keys := slices.SortedFunc(maps.Keys(rows), func(a, b flowKey) int {
		return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.conv, b.conv), cmp.Compare(a.device, b.device))
	})
	tail := mergeCursor
	if fault.Planted(fault.CursorBack) { // this would hide it
		tail = replaceCursor
	}
	out := t.insertion("INSERT INTO device_cursors (user_id, device_id, conv_id, install_epoch, epoch, start_seq, delivered_seq, n, updated_at)", tail, len(keys), 200)
	for _, k := range keys {
		r := rows[k]
		out.row(k.user, k.device, k.conv, r.install, r.epoch, r.start, r.delivered, r.n, r.updated)
	}
	out.done()
}

// raiseCounters writes the n of devices, which are locked already, by a join with the
// new values.
func (t *myTxn) raiseCounters(devices map[deviceKey]*deviceState) {
	keys := slices.SortedFunc(maps.Keys(devices), func(a, b deviceKey) int {
		return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.device, b.device))
	})
	chunks(keys, func(part []deviceKey) {
		b := []byte("UPDATE (")
		for i, k := range part {
			if i > 0 {
				b = append(b, " UNION ALL "...)
			}
			b = append(b, interpolate("SELECT ? AS usr, ? AS device, ? AS n", []any{k.user, k.device, devices[k].n})...)
		}
		b = append(b, ") AS k STRAIGHT_JOIN devices AS d FORCE INDEX (PRIMARY) ON d.user_id = k.usr AND d.device_id = k.device SET d.n = k.n"...)
		t.queued = append(t.queued, &myStatement{text: string(b)})
	})
}
