package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/impart-im/impart"
)

// The queries that tell which rows somebody else holds: what is there, and is not
// found where locked rows are left out. A row that is made between the two counts as
// held, and is looked at again.
const (
	freeConvs   = "SELECT conv_id FROM conversations WHERE conv_id = ANY($1::text[]) ORDER BY conv_id FOR NO KEY UPDATE SKIP LOCKED"
	convsThere  = "SELECT conv_id, next_seq, (SELECT max(seq) FROM events AS e WHERE e.conv_id = c.conv_id) FROM conversations AS c WHERE conv_id = ANY($1::text[])"
	freeDevices = `SELECT k.usr, k.device FROM unnest($1::text[], $2::text[]) AS k (usr, device), LATERAL
		(SELECT 1 FROM devices WHERE user_id = k.usr AND device_id = k.device FOR NO KEY UPDATE SKIP LOCKED) AS d`
	devicesThere = `SELECT k.usr, k.device FROM unnest($1::text[], $2::text[]) AS k (usr, device), LATERAL
		(SELECT 1 FROM devices WHERE user_id = k.usr AND device_id = k.device) AS d`
)

// stuckPatience is how long the look at what is held may take, a new connection
// included.
const stuckPatience = 5 * time.Second

// stuck implements [engine].
func (p *pgEngine) stuck(groups []*group) (map[aim]error, error) {
	w := want(together(groups))
	out := map[aim]error{}
	convs := w.moving()
	if len(convs) == 0 && len(w.acking) == 0 {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(p.identity.lifetime(), min(p.s.opts.Patience, stuckPatience))
	defer cancel()
	held, err := p.acquire(ctx, p.writers, p.readers)
	if err != nil {
		return nil, haltedOr(err)
	}
	defer held.Release()
	tx := &pgTxn{p: p, pgSession: newSession(ctx, held, pgStatements.begin)}
	if p.pooled {
		tx.later(setLocally)
	}
	err = errors.Join(tx.stuckConvs(convs, out), tx.stuckDevices(w, out))
	tx.undo()
	return out, err
}

func (t *pgTxn) stuckConvs(convs []impart.ConvID, out map[aim]error) error {
	if len(convs) == 0 {
		return nil
	}
	free := map[impart.ConvID]bool{}
	return t.send(pgQuery(freeConvs, func(r row) error {
		free[impart.ConvID(r.str(0))] = true
		return nil
	}, convTexts(convs)), pgQuery(convsThere, func(r row) error {
		conv := impart.ConvID(r.str(0))
		if !free[conv] {
			out[aim{conv: conv}] = errHeld
		}
		if !r.null(2) && r.seq(2) >= r.seq(1) {
			out[aim{conv: conv}] = &damage{conv, r.seq(1), r.seq(2)}
		}
		return nil
	}, convTexts(convs)))
}

func (t *pgTxn) stuckDevices(w *wanted, out map[aim]error) error {
	if len(w.acking) == 0 {
		return nil
	}
	devices := slices.SortedFunc(maps.Keys(w.acking), func(a, b deviceKey) int {
		return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.device, b.device))
	})
	users := texts(devices, func(k *deviceKey) impart.UserID { return k.user })
	names := texts(devices, func(k *deviceKey) impart.DeviceID { return k.device })
	free := map[deviceKey]bool{}
	return t.send(pgQuery(freeDevices, func(r row) error {
		free[deviceKey{impart.UserID(r.str(0)), impart.DeviceID(r.str(1))}] = true
		return nil
	}, users, names), pgQuery(devicesThere, func(r row) error {
		if k := (deviceKey{impart.UserID(r.str(0)), impart.DeviceID(r.str(1))}); !free[k] {
			out[aim{user: k.user}] = errHeld
		}
		return nil
	}, users, names))
}
