package sqlstore

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// contentHash tells the content of one message from another. by names who made
// it: the caller, who hashes the request, or this store, which has only the
// stored event to go by.
type contentHash struct {
	sum [16]byte
	own bool
}

// ownMark goes before the store's own hashes in the hash column.
const ownMark = 'c'

func (h contentHash) column() []byte {
	if h.own {
		return append([]byte{ownMark}, h.sum[:]...)
	}
	return h.sum[:]
}

func readHash(column []byte) contentHash {
	h := contentHash{own: len(column) == 1+len(contentHash{}.sum)}
	if h.own {
		column = column[1:]
	}
	copy(h.sum[:], column)
	return h
}

// matches reports whether a is the message with this hash.
func (h contentHash) matches(a *store.Append) bool {
	if h.own {
		return h == digest(&impart.Event{Conv: a.Conv, Kind: a.Kind, Type: a.Type, Body: a.Body, Ext: a.Ext, Target: a.Target})
	}
	return h.sum == a.Hash
}

// digest is the store's own hash of an event: of everything a resend repeats.
func digest(ev *impart.Event) contentHash {
	h := sha256.New()
	var size [8]byte
	for _, part := range [...]string{string(ev.Kind), string(ev.Conv), ev.Type, ev.Body, string(ev.Ext)} {
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	binary.BigEndian.PutUint64(size[:], uint64(ev.Target))
	h.Write(size[:])
	return contentHash{sum: [16]byte(h.Sum(nil)), own: true}
}
