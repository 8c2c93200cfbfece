package sqlstore

import "github.com/impart-im/impart"

// askMembers has members read.
func (t *pgTxn) askMembers(keys []memberKey, ask asker) {
	for _, k := range keys {
		t.txn.members.put(k, nil)
	}
	if len(keys) == 0 {
		return
	}
	ask(selectMembers, func(r row) error {
		k := memberKey{impart.ConvID(r.str(0)), impart.UserID(r.str(1))}
		m, _ := t.txn.members.get(k)
		if m == nil {
			m = &member{}
			t.txn.members.put(k, m)
		}
		m.role = impart.Role(r.str(2))
		m.periods = append(m.periods, impart.Period{From: r.seq(3), To: r.seq(4)})
		return nil
	}, memberConvs(keys), memberUsers(keys))
}
