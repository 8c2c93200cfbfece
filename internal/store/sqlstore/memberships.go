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

// guessed are members that a transaction takes from memory, each with the version that
// it is of.
type guessed map[memberKey]int64

// guessMembers takes what is known from memory, and gives the rest. Whether what was
// known is still so shows once the conversations are read.
func (tx *txn) guessMembers(keys []memberKey) (g guessed, unknown []memberKey) {
	g = make(guessed, len(keys))
	for _, k := range keys {
		if m, ok := tx.memberships.known.get(k); ok {
			tx.members.put(k, m.member)
			g[k] = m.version
		} else {
			unknown = append(unknown, k)
		}
	}
	return g, unknown
}

// checkMembers reads again what was known and has changed, and remembers what was
// read; row is that of meta. The version was read before the members, so that they can
// only be newer: then the next transaction finds another version, and reads again.
func (tx *txn) checkMembers(keys []memberKey, g guessed, row history, read func(stale []memberKey) error) error {
	ms := &tx.memberships
	same := ms.of == row
	var stale []memberKey
	for _, k := range keys {
		version, guessed := g[k]
		if guessed && !(same && version == tx.membersVersion(k.conv)) {
			stale = append(stale, k)
		}
	}
	if len(stale) > 0 {
		if err := read(stale); err != nil {
			return err
		}
	}
	if !same {
		ms.of = row
		ms.known.clear()
	}
	for _, k := range keys {
		if _, guessed := g[k]; !guessed || slices.Contains(stale, k) {
			m, _ := tx.members.get(k)
			ms.known.put(k, membership{tx.membersVersion(k.conv), m})
		}
	}
	return nil
}

// membersVersion is that of a conversation that was read; 0 for one that is not there.
func (tx *txn) membersVersion(conv impart.ConvID) int64 {
	if c, _ := tx.convs.get(conv); c != nil {
		return c.version
	}
	return 0
}
