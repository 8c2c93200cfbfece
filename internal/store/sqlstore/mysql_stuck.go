package sqlstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/impart-im/impart"
)

// myRowWait is [rowWait] in MySQL, which counts seconds.
const myRowWait = "SET SESSION innodb_lock_wait_timeout = 1"

// stuck implements [engine]: held is what is there, and is not found where locked rows
// are left out. Each query is a transaction of its own. Where a server cannot leave
// them out nothing is known.
func (m *myEngine) stuck(groups []*group) (map[aim]error, error) {
	if !m.flavour.gates {
		return nil, nil
	}
	w := want(together(groups))
	out := map[aim]error{}
	var statements []*myStatement
	m.askStuckConvs(w, out, &statements)
	m.askStuckDevices(w, out, &statements)
	if len(statements) == 0 {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(m.identity.lifetime(), min(m.s.opts.Patience, stuckPatience))
	defer cancel()
	err := m.writers.with(ctx, func(c *myConn) error {
		err := (&mySession{ctx: ctx, conn: c}).send(statements...)
		c.broken = c.broken || err != nil && myBreaks(err)
		return err
	})
	return out, err
}

func (m *myEngine) askStuckConvs(w *wanted, out map[aim]error, statements *[]*myStatement) {
	convs := w.moving()
	free := map[impart.ConvID]bool{}
	chunks(convs, func(part []impart.ConvID) {
		where := " FORCE INDEX (PRIMARY) WHERE conv_id IN (" + convTuples(part) + ")"
		*statements = append(*statements,
			&myStatement{text: "SELECT conv_id FROM conversations" + where + " FOR UPDATE SKIP LOCKED", each: func(r row) error {
				free[impart.ConvID(r.str(0))] = true
				return nil
			}},
			&myStatement{text: "SELECT conv_id, next_seq, (SELECT max(seq) FROM events AS e WHERE e.conv_id = conversations.conv_id) FROM conversations" + where,
				each: func(r row) error {
					conv := impart.ConvID(r.str(0))
					if !free[conv] {
						out[aim{conv: conv}] = errHeld
					}
					if !r.null(2) && r.seq(2) >= r.seq(1) {
						out[aim{conv: conv}] = &damage{conv, r.seq(1), r.seq(2)}
					}
					return nil
				}})
	})
}

func (m *myEngine) askStuckDevices(w *wanted, out map[aim]error, statements *[]*myStatement) {
	devices := slices.SortedFunc(maps.Keys(w.acking), func(a, b deviceKey) int {
		return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.device, b.device))
	})
	free := map[deviceKey]bool{}
	chunks(devices, func(part []deviceKey) {
		query := "SELECT user_id, device_id FROM devices FORCE INDEX (PRIMARY) WHERE (user_id, device_id) IN (" + tuples(part,
			func(k *deviceKey) string { return string(k.user) }, func(k *deviceKey) string { return string(k.device) }) + ")"
		*statements = append(*statements,
			&myStatement{text: query + " FOR UPDATE SKIP LOCKED", each: func(r row) error {
				free[deviceKey{impart.UserID(r.str(0)), impart.DeviceID(r.str(1))}] = true
				return nil
			}},
			&myStatement{text: query, each: func(r row) error {
				if k := (deviceKey{impart.UserID(r.str(0)), impart.DeviceID(r.str(1))}); !free[k] {
					out[aim{user: k.user}] = errHeld
				}
				return nil
			}})
	})
}
