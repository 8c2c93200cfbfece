package logic

import (
	"context"
	"slices"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/dedup"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/store"
)

// resolve answers items, in their order. What surely repeats a message that has
// committed gets the answer of its first attempt again, without waiting for the
// store: a storm of resends would hold up everybody else's sends there. All else
// is the store's to decide. Errors are as in commit.
func (s *Service) resolve(ctx context.Context, op string, items []store.Append) []store.Appended {
	if len(items) == 0 {
		return nil
	}
	entries := make([]dedup.Entry, len(items))
	for i := range items {
		entries[i] = dedup.Entry{Key: dedup.KeyOf(items[i].Sender, items[i].CMID), User: items[i].Sender, CMID: items[i].CMID}
	}
	of := ""
	if s.cfg.DedupShared {
		of = s.incarnation(ctx)
	}
	turn := s.ledger.begin()
	s.dedup.Find(ctx, entries)
	results := make([]store.Appended, len(items))
	present := presentOnce{s: s}
	var left []int // places of items that the store has to answer
	for i := range items {
		if kept := &entries[i].Answer; present.repeats(ctx, &items[i], kept) {
			results[i] = store.Appended{Seq: kept.Seq, MID: kept.MID, At: kept.At, Epoch: kept.Epoch, Dup: true}
			s.metrics.hit(entries[i].Layer)
		} else {
			left = append(left, i)
		}
	}
	s.keepEarly(ctx, entries, items)
	switch len(left) {
	case 0:
		s.withdraw(turn, results, nil)
		return results
	case len(items):
		results = s.commit(ctx, op, items)
		s.keep(ctx, of, entries, items, results)
		return results
	}
	rest := make([]store.Append, len(left))
	keys := make([]dedup.Entry, len(left))
	for k, i := range left {
		rest[k], keys[k] = items[i], entries[i]
	}
	committed := s.commit(ctx, op, rest)
	s.keep(ctx, of, keys, rest, committed)
	for k, i := range left {
		results[i] = committed[k]
	}
	s.withdraw(turn, results, left)
	return results
}

// withdraw takes kept answers back if the history that they are of has been looked at
// since: it may be gone, and with it what they say.
func (s *Service) withdraw(turn uint64, results []store.Appended, left []int) {
	if s.ledger.valid(turn) {
		return
	}
	for i := range results {
		if !slices.Contains(left, i) {
			results[i] = store.Appended{Err: overtaken()}
		}
	}
}

// presentOnce reads the store's epoch once for all items of a request that need it.
type presentOnce struct {
	s     *Service
	asked bool
	epoch impart.Epoch
	of    string // the incarnation
	err   error
}

// is reports whether an answer is of the present epoch and, if another node has kept
// it, of the present history.
func (p *presentOnce) is(ctx context.Context, kept *dedup.Answer) bool {
	if !p.asked {
		p.asked = true
		p.epoch, p.of, p.err = p.s.presentEpoch(ctx)
	}
	return p.err == nil && p.epoch == kept.Epoch && (kept.Incarnation == "" || kept.Incarnation == p.of)
}

// repeats reports whether a kept answer is the answer to item: the content is the
// same, and so is the epoch, which is read anew: another node may just have raised
// it. That read is shared by all who ask at the time, and writes nothing.
func (p *presentOnce) repeats(ctx context.Context, item *store.Append, kept *dedup.Answer) bool {
	if kept.Seq == 0 || kept.Hash != item.Hash || wouldHideBug() {
		return false
	}
	if fault.Planted(fault.AnswersOutliveEpoch) {
		return true
	}
	return (item.Epoch == 0 || item.Epoch == kept.Epoch) && p.is(ctx, kept)
}

// keep remembers what the store has acknowledged, duplicates too: they were
// answered by a transaction that wrote. of is the incarnation that was known before it.
// entries have the keys of the items.
func (s *Service) keep(ctx context.Context, of string, entries []dedup.Entry, items []store.Append, results []store.Appended) {
	kept := entries[:0]
	for i := range results {
		if r := &results[i]; r.Err == nil {
			kept = append(kept, dedup.Entry{Key: entries[i].Key, User: items[i].Sender, CMID: items[i].CMID, Answer: dedup.Answer{
				Hash: items[i].Hash, Seq: r.Seq, MID: r.MID, At: r.At, Epoch: r.Epoch, Incarnation: of,
			}})
		}
	}
	if len(kept) > 0 {
		s.dedup.Keep(ctx, kept)
	}
}
