package sqlstore

import (
	"slices"

	"github.com/impart-im/impart"
)

// memberships are what a writer has read of members in earlier transactions: each
// is worth something only while its conversation has the members' version that was
// read before it, in the history that it was read in.
type memberships struct {
	of    history
	known cache[memberKey, membership]
}

// membership is a user's periods in a conversation, nil for none, as of a version.
type membership struct {
	version int64
	member  *member
}

func newMemberships() memberships {
	return memberships{known: newCache[memberKey, membership](cachedMembers)}
}

// loadMembers takes what is known from memory and asks for the rest; keys are in
// order. Whether what was known is still so shows once the conversations are read.
func (t *pgTxn) loadMembers(keys []memberKey, ask asker) {
	t.guessed = make(map[memberKey]int64, len(keys))
	var unknown []memberKey
	for _, k := range keys {
		if m, ok := t.txn.memberships.known.get(k); ok {
			t.txn.members.put(k, m.member)
			t.guessed[k] = m.version
		} else {
			unknown = append(unknown, k)
		}
	}
	t.askMembers(unknown, ask)
}

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

// checkMembers reads again what was known and has changed, and remembers what was
// read. The version was read before the members, so that they can only be newer:
// then the next transaction finds another version, and reads again.
func (t *pgTxn) checkMembers(keys []memberKey) error {
	ms := &t.txn.memberships
	same := ms.of == t.row
	var stale []memberKey
	for _, k := range keys {
		version, guessed := t.guessed[k]
		if guessed && !(same && version == t.membersVersion(k.conv)) {
			stale = append(stale, k)
		}
	}
	if len(stale) > 0 {
		err := error(nil)
		t.askMembers(stale, func(query string, each func(row) error, args ...any) {
			err = t.send(pgQuery(query, each, args...))
		})
		if err != nil {
			return err
		}
	}
	if !same {
		ms.of = t.row
		ms.known.clear()
	}
	for _, k := range keys {
		if _, guessed := t.guessed[k]; !guessed || slices.Contains(stale, k) {
			m, _ := t.txn.members.get(k)
			ms.known.put(k, membership{t.membersVersion(k.conv), m})
		}
	}
	return nil
}

// membersVersion is that of a conversation that was read; 0 for one that is not there.
func (t *pgTxn) membersVersion(conv impart.ConvID) int64 {
	if c, _ := t.txn.convs.get(conv); c != nil {
		return c.version
	}
	return 0
}
