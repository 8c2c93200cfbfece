package bench

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/impart-im/impart"
)

// ledger is what the server has answered: of each message its place and a hash
// of its cmid and mid, so that a log of millions fits in memory. The log is held
// against it afterwards ([audit]).
type ledger struct {
	run   string
	seed  maphash.Seed
	convs []convLedger

	unanswered atomic.Int64 // sends whose outcome nobody knows: they may be in the log or not
	twice      atomic.Int64 // answers that gave one place to two messages
}

// convLedger is the part of one conversation.
type convLedger struct {
	id impart.ConvID

	mu    sync.Mutex
	hash  []uint64 // by seq - 1; 0: nothing was answered
	count int64    // messages answered
}

func newLedger(run string, convs []impart.ConvID) *ledger {
	l := &ledger{run: run, seed: maphash.MakeSeed(), convs: make([]convLedger, len(convs))}
	for i, id := range convs {
		l.convs[i].id = id
	}
	return l
}

// message is the n-th message of one sender.
type message struct{ sender, n int64 }

// cmid is the message's id in this run.
func (l *ledger) cmid(m message) impart.CMID {
	return impart.CMID(l.run + "-" + strconv.FormatInt(m.sender, 36) + "-" + strconv.FormatInt(m.n, 36))
}

// parse reads a cmid back; false for one that is not of this run.
func (l *ledger) parse(cmid impart.CMID) (m message, ours bool) {
	parts := strings.Split(string(cmid), "-")
	if len(parts) != 3 || parts[0] != l.run {
		return m, false
	}
	sender, err1 := strconv.ParseInt(parts[1], 36, 64)
	n, err2 := strconv.ParseInt(parts[2], 36, 64)
	return message{sender, n}, err1 == nil && err2 == nil && sender >= 0 && n >= 0
}

func (l *ledger) hash(cmid impart.CMID, mid impart.MID) uint64 {
	var h maphash.Hash
	h.SetSeed(l.seed)
	_, _ = h.WriteString(string(cmid))
	_ = h.WriteByte(0)
	_, _ = h.WriteString(string(mid))
	return h.Sum64() | 1 // 0 means none
}

// sent notes an answer. A repeat of one that is known changes nothing.
func (l *ledger) sent(conv int, cmid impart.CMID, seq impart.Seq, mid impart.MID) error {
	if conv < 0 || conv >= len(l.convs) || seq < 1 {
		return fmt.Errorf("sent with conversation %d and seq %d", conv, seq)
	}
	c := &l.convs[conv]
	hash := l.hash(cmid, mid)
	c.mu.Lock()
	defer c.mu.Unlock()
	for int64(len(c.hash)) < int64(seq) {
		c.hash = append(c.hash, 0)
	}
	switch c.hash[seq-1] {
	case 0:
		c.hash[seq-1] = hash
		c.count++
	case hash:
	default:
		l.twice.Add(1)
	}
	return nil
}

// count is how many messages were answered.
func (l *ledger) count() int64 {
	var n int64
	for i := range l.convs {
		c := &l.convs[i]
		c.mu.Lock()
		n += c.count
		c.mu.Unlock()
	}
	return n
}
