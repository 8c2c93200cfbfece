package redis

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/dedup"
)

// Of answers.
const (
	// findWithin is how long a send waits for what Redis knows of it. The store answers
	// in any case.
	findWithin = 50 * time.Millisecond
	findRest   = time.Second // after a failure, before one send tries again
	maxFinds   = 64          // sends that ask at a time
	maxKept    = 1 << 15     // answers that wait to be told
	keepAtOnce = 512
)

// Answers is a [dedup.Cache] in Redis, which the logic nodes of a deployment share:
// dedup:USER:CMID, for [dedup.TTL]. Keep notes and returns. Find waits for Redis, but
// not for long, and while Redis does not answer it finds nothing at once.
type Answers struct {
	c *Client

	stop    context.CancelFunc
	running sync.WaitGroup
	more    chan struct{} // holds one token while there may be something to tell
	finds   chan struct{} // held by who asks

	mu      sync.Mutex // guards what follows
	waiting []dedup.Entry
	restTo  time.Time
	trying  bool // somebody finds out whether Redis answers again
}

var _ dedup.Cache = (*Answers)(nil)

// NewAnswers makes the cache. Close ends it.
func NewAnswers(c *Client) *Answers {
	ctx, stop := context.WithCancel(context.Background())
	a := &Answers{c: c, stop: stop, more: make(chan struct{}, 1), finds: make(chan struct{}, maxFinds)}
	a.running.Go(func() { a.tell(ctx) })
	return a
}

// escaper keeps a colon in a user or a cmid apart from the one between them, and
// braces from choosing a slot of a Cluster.
var escaper = strings.NewReplacer("%", "%25", ":", "%3A", "{", "%7B", "}", "%7D")

// answerKey is seed 002's dedup:{uid}:{client_msg_id}. No two pairs share one: only
// the colon between user and cmid stands for itself.
func answerKey(user impart.UserID, cmid impart.CMID) string {
	return "dedup:" + escaper.Replace(string(user)) + ":" + escaper.Replace(string(cmid))
}

// answer is what stands under a key.
type answer struct {
	Hash        string        `json:"hash"`
	Seq         impart.Seq    `json:"seq"`
	MID         impart.MID    `json:"msg_id"`
	At          impart.Millis `json:"at"`
	Epoch       impart.Epoch  `json:"epoch"`
	Incarnation string        `json:"incarnation"`
}

func encodeAnswer(a *dedup.Answer) string {
	raw, _ := json.Marshal(answer{hex.EncodeToString(a.Hash[:]), a.Seq, a.MID, a.At, a.Epoch, a.Incarnation}) // cannot fail
	return string(raw)
}

// decodeAnswer is false of what is no whole answer.
func decodeAnswer(text string) (out dedup.Answer, ok bool) {
	var a answer
	if json.Unmarshal([]byte(text), &a) != nil {
		return out, false
	}
	hash, err := hex.DecodeString(a.Hash)
	if err != nil || len(hash) != len(out.Hash) || a.Seq <= 0 || a.MID == "" || a.Incarnation == "" {
		return out, false
	}
	return dedup.Answer{Hash: [16]byte(hash), Seq: a.Seq, MID: a.MID, At: a.At, Epoch: a.Epoch, Incarnation: a.Incarnation}, true
}

// Find implements [dedup.Cache].
func (a *Answers) Find(ctx context.Context, entries []dedup.Entry) {
	conn := a.c.get()
	if conn == nil || len(entries) == 0 {
		return
	}
	select {
	case a.finds <- struct{}{}:
	default:
		return // so many wait for Redis already
	}
	if !a.begin() {
		<-a.finds
		return
	}
	ctx, cancel := context.WithTimeout(ctx, findWithin)
	defer cancel()
	found := make(chan []rueidis.RedisResult, 1)
	cmds := make(rueidis.Commands, len(entries))
	for i := range entries {
		cmds[i] = conn.B().Get().Key(answerKey(entries[i].User, entries[i].CMID)).Build()
	}
	// The client library may wait for a connection for longer than it was told to.
	go func() {
		defer func() { <-a.finds }()
		found <- conn.DoMulti(ctx, cmds...)
	}()
	var results []rueidis.RedisResult
	select {
	case results = <-found:
	case <-ctx.Done():
		a.outcome(ctx.Err())
		return
	}
	var failed error
	for i := range results {
		text, err := results[i].ToString()
		switch {
		case rueidis.IsRedisNil(err):
		case err != nil:
			failed = err
		default:
			if got, ok := decodeAnswer(text); ok {
				entries[i].Answer = got
			}
		}
	}
	a.outcome(failed)
}

// begin reports whether Redis may be asked: always while it answers, and after a
// failure by one at a time, now and then.
func (a *Answers) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.restTo.IsZero() {
		return true
	}
	if a.trying || time.Now().Before(a.restTo) {
		return false
	}
	a.trying = true
	return true
}

func (a *Answers) outcome(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trying = false
	if err == nil {
		a.restTo = time.Time{}
		return
	}
	a.c.metrics.failed.WithLabelValues(partDedup).Inc()
	a.restTo = time.Now().Add(findRest)
}

// Keep implements [dedup.Cache].
func (a *Answers) Keep(_ context.Context, entries []dedup.Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting)+len(entries) > maxKept {
		a.c.metrics.dropped.WithLabelValues(partDedup).Add(float64(len(a.waiting)))
		a.waiting = nil
	}
	a.waiting = append(a.waiting, entries...)
	signal(a.more)
}

// next takes some of the answers that wait, the oldest first.
func (a *Answers) next() []dedup.Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.waiting), keepAtOnce)
	some := a.waiting[:n:n]
	if a.waiting = a.waiting[n:]; len(a.waiting) == 0 {
		a.waiting = nil
	}
	return some
}

// tell tells Redis what is to be kept, until ctx ends. What cannot be told is dropped:
// the store knows it.
func (a *Answers) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.more:
		}
		for some := a.next(); len(some) > 0 && ctx.Err() == nil; some = a.next() {
			if err := a.put(ctx, some); err != nil && ctx.Err() == nil {
				a.c.metrics.failed.WithLabelValues(partDedup).Inc()
				a.c.metrics.dropped.WithLabelValues(partDedup).Add(float64(len(some)))
				if !wait(ctx, patience) {
					return
				}
			}
		}
	}
}

func (a *Answers) put(ctx context.Context, entries []dedup.Entry) error {
	conn := a.c.get()
	if conn == nil {
		return errDown
	}
	ctx, cancel := context.WithTimeout(ctx, silentFor)
	defer cancel()
	cmds := make(rueidis.Commands, len(entries))
	for i := range entries {
		e := &entries[i]
		cmds[i] = conn.B().Set().Key(answerKey(e.User, e.CMID)).Value(encodeAnswer(&e.Answer)).Px(dedup.TTL).Build()
	}
	var failed error
	for _, result := range conn.DoMulti(ctx, cmds...) {
		if err := result.Error(); err != nil {
			failed = err
		}
	}
	return failed
}

// Close ends the cache; what waits is dropped.
func (a *Answers) Close() error {
	a.stop()
	a.running.Wait()
	for range maxFinds { // those that ask end by their time-outs
		a.finds <- struct{}{}
	}
	return nil
}
