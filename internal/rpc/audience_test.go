package rpc

import (
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/impart-im/impart"
)

// crowd is an audience of many.
func crowd(conv impart.ConvID, version int64, n int) *impart.Audience {
	a := &impart.Audience{Conv: conv, Version: version, Members: map[impart.UserID]impart.Periods{}, Current: n}
	for i := range n {
		a.Members[impart.UserID(fmt.Sprintf("u-%d", i))] = impart.Periods{{From: 1, To: 3}, {From: impart.Seq(5 + version)}}
	}
	return a
}

// TestRangesAndAudiencesArriveByteForByte is the round trip of what is cached, each
// time with a client that knows nothing, and then with one that knows it.
func TestRangesAndAudiencesArriveByteForByte(t *testing.T) {
	rules := &fake{}
	w := newNetwork(t)
	w.serve("node:1", rules)
	rapid.Check(t, func(t *rapid.T) {
		c, err := NewClient(ClientConfig{Nodes: []string{"node:1"}, Dial: w.dial})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx := w.t.Context()
		var part impart.Range
		fill(t, reflect.ValueOf(&part).Elem())
		if part.Audience == nil {
			part.Audience = crowd("c", 1, 2)
		}
		conv := part.Audience.Conv
		part.Epoch, part.Audience.Version = 1, 7
		var failure error
		if rapid.Bool().Draw(t, "fails") {
			failure = drawError(t)
			part = impart.Range{}
		}
		rules.answers, rules.epoch = []any{part, failure}, 1
		for range 2 {
			got, err := c.Range(ctx, conv, 3, 9)
			if diff := cmp.Diff([]any{part, failure}, []any{got, err}, same); diff != "" {
				t.Fatalf("range (-near +far):\n%s", diff)
			}
			if diff := cmp.Diff([]any{conv, impart.Seq(3), impart.Seq(9)}, rules.asked); diff != "" {
				t.Fatalf("asked (-near +far):\n%s", diff)
			}
		}
		if failure != nil {
			return
		}
		rules.members = func(impart.ConvID, int64) (*impart.Audience, error) { return part.Audience, nil }
		for _, version := range []int64{0, 7} {
			got, err := c.Audience(ctx, conv, version)
			if diff := cmp.Diff([]any{part.Audience, nil}, []any{got, err}, same); diff != "" {
				t.Fatalf("audience (-near +far):\n%s", diff)
			}
		}
		written := impart.Written{Next: 5, Epoch: 1, Convs: []impart.WrittenConv{{Conv: conv, Head: 4, Audience: part.Audience}}}
		rules.answers = []any{written, nil}
		got, err := c.Written(ctx, 12)
		if diff := cmp.Diff([]any{written, nil}, []any{got, err}, same); diff != "" {
			t.Fatalf("written (-near +far):\n%s", diff)
		}
	})
}

// TestMembersComeOverOnce: a group of five hundred costs its members once for each
// version, whatever is asked about it.
func TestMembersComeOverOnce(t *testing.T) {
	inNetwork(t, func(w *network) {
		rules := &fake{epoch: 1}
		w.serve("node:1", rules)
		c := w.client("node:1")
		var asked atomic.Int64
		version := int64(1)
		rules.members = func(conv impart.ConvID, _ int64) (*impart.Audience, error) {
			asked.Add(1)
			return crowd(conv, version, 500), nil
		}
		carried := func() (n float64) { return value(w.t, c.metrics.audience.WithLabelValues("node")) }
		wants := func(what string, members, questions int) {
			w.t.Helper()
			if got := carried(); got != float64(members) || asked.Load() != int64(questions) {
				w.t.Errorf("%s: members came over %v times and the node was asked %d times; want %d and %d", what, got, asked.Load(), members, questions)
			}
		}
		audience := func(v int64) {
			w.t.Helper()
			got, err := c.Audience(w.t.Context(), "c-big", v)
			must(w.t, err)
			if got.Version != version || len(got.Members) != 500 {
				w.t.Errorf("version %d with %d members", got.Version, len(got.Members))
			}
		}
		audience(1)
		wants("first", 1, 1)
		for range 10 {
			audience(1)
		}
		wants("known", 1, 1)
		rules.answers = []any{impart.Range{Audience: crowd("c-big", 1, 500), Epoch: 1, Head: 3}, nil}
		_, err := c.Range(w.t.Context(), "c-big", 1, 3)
		must(w.t, err)
		rules.answers = []any{impart.Written{Epoch: 1, Convs: []impart.WrittenConv{{Conv: "c-big", Audience: crowd("c-big", 1, 500)}}}, nil}
		_, err = c.Written(w.t.Context(), 1)
		must(w.t, err)
		wants("ranges and sweeps", 1, 1)
		time.Sleep(audienceNow)
		audience(0)
		wants("the present one, unchanged", 1, 2)
		audience(0)
		wants("the present one, a moment later", 1, 2)
		version = 2
		audience(2)
		wants("a later version", 2, 3)
		time.Sleep(audienceLife + time.Millisecond)
		audience(2)
		wants("after its life", 3, 4)
		version = 1 // a history that was rewritten
		rules.epoch = 2
		_, err = c.Epoch(w.t.Context())
		must(w.t, err)
		audience(1)
		wants("in a new epoch", 4, 5)
	})
}

// TestAnAudienceOfAnOlderEpochIsNotKept: a node that has not heard of the new epoch
// answers with members of the old one; they serve that once.
func TestAnAudienceOfAnOlderEpochIsNotKept(t *testing.T) {
	inNetwork(t, func(w *network) {
		rules := &fake{epoch: 1}
		rules.members = func(conv impart.ConvID, _ int64) (*impart.Audience, error) { return crowd(conv, 9, 2), nil }
		w.serve("node:1", rules)
		c := w.client("node:1")
		c.saw(2)
		for range 2 {
			_, err := c.Audience(w.t.Context(), "c-ab", 1)
			must(w.t, err)
		}
		if _, kept := c.audiences.get("c-ab", 2); kept || value(w.t, c.metrics.audience.WithLabelValues("node")) != 2 {
			w.t.Error("it was kept")
		}
		synctest.Wait()
	})
}

// TestTheCacheOfMembersIsBounded however many conversations there are.
func TestTheCacheOfMembersIsBounded(t *testing.T) {
	a := newAudiences(1000)
	for i := range 500 {
		conv := impart.ConvID(fmt.Sprintf("c-%d", i))
		a.keep(known{crowd(conv, 1, 10), 1, time.Now()})
		if _, found := a.get("c-0", 1); !found {
			t.Fatal("one that is in use was forgotten")
		}
	}
	members := 0
	for _, generation := range []map[impart.ConvID]known{a.young, a.old} {
		for _, k := range generation {
			members += len(k.audience.Members)
		}
	}
	if members > 2100 {
		t.Errorf("%d members are kept", members)
	}
}
