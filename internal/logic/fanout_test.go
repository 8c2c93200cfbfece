package logic_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/memstore"
)

// pushed are the seqs that a gateway would push to a user of what Range gives.
func pushed(part impart.Range, user impart.UserID) []impart.Seq {
	var seqs []impart.Seq
	for i := range part.Events {
		if part.Audience.Members[user].Sees(&part.Events[i]) {
			seqs = append(seqs, part.Events[i].Seq)
		}
	}
	return seqs
}

func (w *world) rangeOf(conv impart.ConvID, from, through impart.Seq) impart.Range {
	w.t.Helper()
	part, err := w.Range(w.ctx, conv, from, through)
	if err != nil {
		w.t.Fatal(err)
	}
	return part
}

func TestPushesFollowTheMembersOfTheMoment(t *testing.T) { // D8
	w := newWorld(t)
	w.group("c", ana, ben)
	w.say(ana, "c", "1")
	if got := pushed(w.rangeOf("c", 1, 1), ben); !slices.Equal(got, []impart.Seq{1}) {
		t.Errorf("ben gets %v", got)
	}
	before := w.rangeOf("c", 1, 1).Audience
	if _, err := w.RemoveMember(w.ctx, "c", ben); err != nil { // event 2, his last
		t.Fatal(err)
	}
	w.say(ana, "c", "3")
	if _, err := w.PutMember(w.ctx, "c", impart.Member{User: cy}); err != nil { // event 4, her first
		t.Fatal(err)
	}
	w.say(ana, "c", "5")
	if _, err := w.Recall(w.ctx, impart.Recall{Sender: ana, Conv: "c", Seq: 1, CMID: "r"}); err != nil { // event 6
		t.Fatal(err)
	}
	part := w.rangeOf("c", 1, 6)
	for user, want := range map[impart.UserID][]impart.Seq{
		ana: {1, 2, 3, 4, 5, 6}, ben: {1, 2, 6}, cy: {4, 5}, eve: nil,
	} {
		if got := pushed(part, user); !slices.Equal(got, want) {
			t.Errorf("%s gets %v, want %v", user, got, want)
		}
	}
	if part.Head != 6 || part.Epoch != 1 || part.More || part.Audience.Current != 2 {
		t.Errorf("%+v", part)
	}
	if len(before.Members) != 2 || !before.Members[ben].Open() {
		t.Error("an audience that was given away has changed")
	}
}

// Another node ends a membership: this one's cache must not outlive the version
// that comes with the events.
func TestAnotherNodesChangeOfMembersIsSeenAtOnce(t *testing.T) { // D8
	w := newWorld(t)
	w.group("c", ana, ben)
	w.say(ana, "c", "hi")
	w.rangeOf("c", 1, 1)
	other := startWorld(t, w.store)
	if _, err := other.RemoveMember(w.ctx, "c", ben); err != nil {
		t.Fatal(err)
	}
	other.say(ana, "c", "he is gone")
	if got := pushed(w.rangeOf("c", 1, 3), ben); !slices.Equal(got, []impart.Seq{1, 2}) {
		t.Errorf("ben gets %v", got)
	}
}

func TestASecondLookAtTheMembersCostsNoRead(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	w.sayMany(ana, "c", 3)
	w.rangeOf("c", 1, 1)
	reads := w.store.Stats().Reads
	w.rangeOf("c", 2, 2)
	w.rangeOf("c", 3, 3)
	if n := w.store.Stats().Reads - reads; n != 2 {
		t.Errorf("two pushes cost %d reads, want one each", n)
	}
}

func TestARangeIsBounded(t *testing.T) {
	w := newWorld(t)
	w.group("many", ana)
	w.group("large", ana)
	w.sayMany(ana, "many", 500)
	for range 40 {
		w.say(ana, "large", strings.Repeat("x", 60_000))
	}
	for conv, head := range map[impart.ConvID]impart.Seq{"many": 500, "large": 40} {
		next := impart.Seq(1)
		for next <= head {
			part := w.rangeOf(conv, next, head)
			if len(part.Events) == 0 || len(part.Events) > 200 || sizeOf(part.Events) > impart.MaxPage {
				t.Fatalf("%s: %d events of %d bytes", conv, len(part.Events), sizeOf(part.Events))
			}
			for _, ev := range part.Events {
				if ev.Seq != next {
					t.Fatalf("%s: seq %d, want %d", conv, ev.Seq, next)
				}
				next++
			}
			if part.More != (next <= head) {
				t.Errorf("%s: next is %d of %d, and more is %v", conv, next, head, part.More)
			}
		}
	}
	for _, c := range [][2]impart.Seq{{0, 1}, {2, 1}, {-1, -1}} {
		_, err := w.Range(w.ctx, "many", c[0], c[1])
		wantCode(t, fmt.Sprint(c), err, impart.BadFrame)
	}
	_, err := w.Range(w.ctx, "nowhere", 1, 1)
	wantCode(t, "nowhere", err, impart.NotFound)
}

func TestTheAudience(t *testing.T) {
	w, clock := clocked(t)
	w.group("c", ana, ben)
	w.say(ana, "c", "hi")
	current := func() int {
		audience, err := w.Audience(w.ctx, "c", 0)
		if err != nil {
			t.Fatal(err)
		}
		return audience.Current
	}
	if n := current(); n != 2 {
		t.Errorf("%d members", n)
	}
	if _, err := w.PutMember(w.ctx, "c", impart.Member{User: cy}); err != nil {
		t.Fatal(err)
	}
	if n := current(); n != 3 {
		t.Errorf("%d members after a change of our own", n)
	}
	stamp := func() (impart.MID, impart.Millis) { return "of another node", clock.Millis() }
	if _, _, err := w.store.RemoveMember(w.ctx, "c", cy, impart.System, stamp); err != nil {
		t.Fatal(err)
	}
	clock.turn(2 * time.Second)
	if n := current(); n != 2 {
		t.Errorf("%d members two seconds after another node's change", n)
	}
	clock.turn(2 * time.Second)
	if n := current(); n != 2 {
		t.Errorf("%d members", n)
	}
	if loads := w.counts("im_audience_total"); loads != 4 {
		t.Errorf("im_audience_total is %v", loads)
	}
	_, err := w.Audience(w.ctx, "nowhere", 0)
	wantCode(t, "nowhere", err, impart.NotFound)
	_, err = w.Audience(w.ctx, "", 0)
	wantCode(t, "no conversation", err, impart.BadFrame)
}

// A push has just read the members' version, so the receipts of its acks, a
// moment later, do not read it again.
func TestAPushSparesTheReceiptsALookUp(t *testing.T) {
	w, clock := clocked(t)
	w.group("c", ana, ben)
	w.say(ana, "c", "hi")
	reads := func(do func()) int64 {
		before := w.store.Stats().Reads
		do()
		return w.store.Stats().Reads - before
	}
	audience := func() {
		if _, err := w.Audience(w.ctx, "c", 0); err != nil {
			t.Fatal(err)
		}
	}
	audience()
	clock.turn(time.Hour)
	w.rangeOf("c", 1, 1)
	clock.turn(time.Second)
	if n := reads(audience); n != 0 {
		t.Errorf("%d reads a second after a push", n)
	}
	clock.turn(time.Second)
	if n := reads(audience); n != 1 {
		t.Errorf("%d reads two seconds after it, want 1", n)
	}
	// Nor does the push make an audience the present one that another node has changed.
	stamp := func() (impart.MID, impart.Millis) { return "of another node", clock.Millis() }
	if _, _, err := w.store.RemoveMember(w.ctx, "c", ben, impart.System, stamp); err != nil {
		t.Fatal(err)
	}
	if part := w.rangeOf("c", 1, 1); part.Audience.Current != 1 {
		t.Errorf("%d members after a push that saw the change", part.Audience.Current)
	}
}

func TestLagging(t *testing.T) {
	w := newWorld(t)
	for _, conv := range []impart.ConvID{"a", "b", "c"} {
		w.group(conv, ana, ben)
		w.sayMany(ana, conv, 2)
	}
	session := w.device(ben, "phone")
	w.ack(session, "b", 2)
	w.ack(session, "a", 1)
	page, err := w.Lagging(w.ctx, session, false, 0)
	if err != nil || len(page.Convs) != 2 || page.Convs[0].Conv != "c" || page.Convs[1].Conv != "a" || page.Convs[1].Delivered != 1 || page.More {
		t.Errorf("%+v: %v", page, err)
	}
	page, err = w.Lagging(w.ctx, session, true, 2)
	if err != nil || len(page.Convs) != 2 || !page.More || page.Epoch != 1 {
		t.Errorf("%+v: %v", page, err)
	}
	_, err = w.Lagging(w.ctx, session, true, 1001)
	wantCode(t, "a limit", err, impart.BadFrame)
	_, err = w.Lagging(w.ctx, impart.Session{User: ben}, true, 1)
	wantCode(t, "no device", err, impart.BadFrame)
	queries := make([]impart.LagQuery, 2500)
	for i := range queries {
		queries[i] = impart.LagQuery{Session: session, Conv: []impart.ConvID{"a", "b", "nowhere"}[i%3]}
	}
	lags, err := w.Lags(w.ctx, queries)
	if err != nil || len(lags) != len(queries) {
		t.Fatalf("%d answers: %v", len(lags), err)
	}
	want := []impart.Lag{{Head: 2, Delivered: 1}, {Head: 2, Delivered: 2}, {}}
	for i, lag := range lags {
		if lag != want[i%3] {
			t.Fatalf("query %d: %+v, want %+v", i, lag, want[i%3])
		}
	}
}

func (w *world) written(since impart.Millis) ([]impart.ConvID, impart.Millis) {
	w.t.Helper()
	written, err := w.Written(w.ctx, since)
	if err != nil {
		w.t.Fatal(err)
	}
	var convs []impart.ConvID
	for _, conv := range written.Convs {
		if conv.Audience == nil || conv.Audience.Conv != conv.Conv || conv.Head == 0 {
			w.t.Errorf("%+v", conv)
		}
		convs = append(convs, conv.Conv)
	}
	slices.Sort(convs)
	return convs, written.Next
}

func TestTheSweepReadsWhatWasWrittenSince(t *testing.T) {
	w, clock := clocked(t)
	w.group("a", ana, ben)
	w.group("b", ana, ben)
	w.group("never written", ana, ben)
	w.say(ana, "a", "hi")
	convs, next := w.written(0)
	if len(convs) != 0 || next != clock.Millis() {
		t.Errorf("from now on: %v, next %d", convs, next)
	}
	clock.turn(5 * time.Second)
	w.say(ana, "b", "hi")
	convs, next = w.written(next)
	if !slices.Equal(convs, []impart.ConvID{"a", "b"}) { // a within the overlap
		t.Errorf("written: %v", convs)
	}
	clock.turn(5 * time.Second)
	if convs, next = w.written(next); !slices.Equal(convs, []impart.ConvID{"b"}) {
		t.Errorf("written: %v", convs)
	}
	clock.turn(5 * time.Second)
	if convs, _ = w.written(next); len(convs) != 0 {
		t.Errorf("written: %v", convs)
	}
}

// An append is stamped and then takes ten seconds to commit. The sweep that runs
// meanwhile cannot see it; the one after it must look back far enough.
func TestASlowCommitIsNotMissedByTheSweep(t *testing.T) { // holes 8 and 11
	start := newClock()
	slow := &slowStore{Store: memstore.New(memstore.Options{Now: start.Millis})}
	w := startWorld(t, slow.Store.(*memstore.Store), func(cfg *logic.Config) { cfg.Store, cfg.Now = slow, start.Now })
	w.group("c", ana, ben)
	_, next := w.written(0)
	stamped := start.Millis()
	start.turn(10 * time.Second)
	if convs, n := w.written(next); len(convs) != 0 {
		t.Fatalf("not committed, and listed: %v", convs)
	} else {
		next = n
	}
	slow.heads = []store.Head{{Conv: "c", Head: 1, Members: 1, At: stamped}}
	slow.slowest = 10_000
	start.turn(time.Second)
	if convs, _ := w.written(next); !slices.Equal(convs, []impart.ConvID{"c"}) {
		t.Errorf("written: %v", convs)
	}
}

// slowStore lists heads of its own as written, and says how long commits take.
type slowStore struct {
	store.Store
	mu      sync.Mutex
	heads   []store.Head
	slowest impart.Millis
	asked   int
}

func (s *slowStore) Stats() store.Stats {
	stats := s.Store.Stats()
	stats.Slowest = s.slowest
	return stats
}

func (s *slowStore) Written(ctx context.Context, since impart.Millis, limit int) (store.Written, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	written, err := s.Store.Written(ctx, since, limit)
	written.Heads = nil
	for _, head := range s.heads {
		if since != 0 && head.At >= since {
			written.Heads = append(written.Heads, head)
		}
	}
	if len(written.Heads) > limit {
		written.Heads, written.More = written.Heads[:limit], true
	}
	return written, err
}

func TestTheSweepMissesNoneOfMany(t *testing.T) {
	start := newClock()
	slow := &slowStore{Store: memstore.New(memstore.Options{Now: start.Millis})}
	w := startWorld(t, slow.Store.(*memstore.Store), func(cfg *logic.Config) { cfg.Store, cfg.Now = slow, start.Now })
	now := start.Millis()
	for i := range 5000 { // most of them in one millisecond, more than a page
		conv := impart.ConvID(fmt.Sprintf("c%04d", i))
		w.group(conv, ana)
		at := now + 1
		if i >= 4000 {
			at += impart.Millis(i)
		}
		slow.heads = append(slow.heads, store.Head{Conv: conv, Head: 1, Members: 1, At: at})
	}
	start.turn(time.Minute)
	convs, next := w.written(now)
	if len(convs) != 5000 || next != start.Millis() {
		t.Errorf("%d conversations, next %d", len(convs), next)
	}
	if slow.asked > 12 {
		t.Errorf("the store was asked %d times", slow.asked)
	}
}

func TestTheSweepStopsAtItsOwnClock(t *testing.T) {
	start := newClock()
	slow := &slowStore{Store: memstore.New(memstore.Options{Now: start.Millis})}
	w := startWorld(t, slow.Store.(*memstore.Store), func(cfg *logic.Config) { cfg.Store, cfg.Now = slow, start.Now })
	w.group("c", ana)
	now := start.Millis()
	for i := range 1500 { // written while the sweep reads; a busy store would go on like this for ever
		slow.heads = append(slow.heads, store.Head{Conv: "c", Head: impart.Seq(i + 1), Members: 1, At: now + impart.Millis(i)})
	}
	if _, next := w.written(now); next != now || slow.asked != 1 {
		t.Errorf("next %d, asked %d times", next, slow.asked)
	}
}

func TestASweepThatCannotFinishSaysSo(t *testing.T) {
	memory := memstore.New(memstore.Options{})
	w := startWorld(t, memory, func(cfg *logic.Config) { cfg.Store = &blindStore{memory} })
	w.group("c", ana)
	w.say(ana, "c", "hi")
	_, err := w.Written(w.ctx, 1)
	wantCode(t, "written", err, impart.Unavailable)
	_, err = w.Range(w.ctx, "c", 1, 1)
	wantCode(t, "range", err, impart.Unavailable)
	if w.log.lines() == 0 {
		t.Error("nothing was logged")
	}
}

// blindStore cannot say who may see a conversation.
type blindStore struct{ store.Store }

func (b *blindStore) Audience(context.Context, impart.ConvID) (*impart.Audience, error) {
	return nil, errors.New("a damaged table")
}
