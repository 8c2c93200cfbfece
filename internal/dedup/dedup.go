// Package dedup keeps answers to sends that have committed, in front of the
// store's unique key. It is an accelerator: it may lose everything at any moment,
// and whoever finds nothing here asks the store, which alone decides what is new,
// what is a duplicate and what is refused (D11, D12).
package dedup

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/impart-im/impart"
)

// TTL is how long an answer is kept at most (seed 002): as long as clients that
// missed it resend in haste. Later resends are rare, and the store's to answer.
const TTL = 10 * time.Minute

// Key is the unique key of a message in a form of fixed size.
type Key [sha256.Size]byte

// KeyOf is the key of a user's cmid. The length of each part comes before it, so
// that no two pairs give the same text to hash: "a:b"+"c" is not "a"+"b:c".
func KeyOf(user impart.UserID, cmid impart.CMID) Key {
	var space [256]byte
	text := binary.AppendUvarint(space[:0], uint64(len(user)))
	text = append(text, user...)
	text = binary.AppendUvarint(text, uint64(len(cmid)))
	text = append(text, cmid...)
	return sha256.Sum256(text)
}

// Answer is what the store answered when a message's transaction had committed,
// now or in an earlier attempt. Whoever finds one gives it only for the same
// content, and only while the epoch is still the same (invariants, holes 16 and 17).
type Answer struct {
	// Hash is of all that makes the content, the conversation among it, as in
	// store.Append.
	Hash  [16]byte
	Seq   impart.Seq // 0: nothing is known
	MID   impart.MID
	At    impart.Millis
	Epoch impart.Epoch
	// Incarnation is the history of the store in which it was committed; "" where the
	// cache is of this very process, whose service knows what became of its answers.
	Incarnation string
}

// Layer says which cache had an answer.
type Layer string

// The layers in front of the store.
const (
	Memory Layer = "memory"
	Redis  Layer = "redis"
)

// Entry is an answer under its key.
type Entry struct {
	Key
	User  impart.UserID // with CMID what Key is of; a cache that others share needs both
	CMID  impart.CMID
	Layer Layer // where Find found the answer
	Answer
}

// Cache keeps answers. It is safe for concurrent use, and a cache that cannot
// answer in time finds nothing.
type Cache interface {
	// Find fills in the answers of entries by their keys. An entry of which nothing
	// is known stays as it is.
	Find(ctx context.Context, entries []Entry)
	// Keep remembers entries, each in place of an older one under its key. Only what
	// the store has acknowledged as committed may be kept. An entry may be lost at
	// once, and is after [TTL].
	Keep(ctx context.Context, entries []Entry)
}
