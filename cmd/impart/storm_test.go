package main

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/impart-im/impart"
)

// A storm of repetitions that lands on a node which has stored none of the messages,
// as after a node died: what does it cost the database, with the layers in front of
// it and without Redis among them?
func TestAStormOfRepetitionsCostsTheDatabaseLittle(t *testing.T) {
	t.Parallel()
	_, dsn, _ := database(t)
	server := redisServer(t)
	const messages, few = 1000, 20 // one in a hundred is missed by chance
	costs := map[bool]int64{}
	for _, withRedis := range []bool{false, true} {
		variables := []string{"IM_STORE=" + dsn}
		if withRedis {
			variables = append(variables, "IM_REDIS="+server.URL())
		}
		here := started(t, roleServe, variables...)
		conv := impart.ConvID(fmt.Sprint("c-", withRedis))
		if _, _, err := here.rules.PutConversation(t.Context(), impart.ConvSpec{Conv: conv, Kind: impart.Group, Members: []impart.Member{{User: "u-ana"}}}); err != nil {
			t.Fatal(err)
		}
		sends := make([]impart.Send, messages)
		for i := range sends {
			sends[i] = impart.Send{Sender: "u-ana", Conv: conv, CMID: impart.CMID(fmt.Sprint(conv, "-", i)), Body: "hi"}
		}
		first := here.rules.Send(t.Context(), sends)
		if withRedis {
			eventually(t, "answers in Redis", func() bool { n, err := server.Do(t.Context(), "DBSIZE"); return err == nil && len(n) >= len("1000") })
		}
		costs[withRedis] = messages
		// On a machine that does much else, Redis may be too slow for a whole second.
		for attempt := 0; attempt < 3 && costs[withRedis] > few; attempt++ {
			costs[withRedis] = storm(t, variables, sends, first)
			if !withRedis {
				break
			}
		}
	}
	if costs[false] != messages || costs[true] > few {
		t.Errorf("the store answered %d of %d without Redis, and %d with it", costs[false], messages, costs[true])
	}
}

// storm repeats sends at a fresh node, and gives for how many of them its store wrote.
func storm(t *testing.T, variables []string, sends []impart.Send, first []impart.Sent) int64 {
	t.Helper()
	const senders = 8
	there := started(t, roleServe, variables...)
	if there.redis != nil {
		eventually(t, "a filter that knows them", func() bool { return metricOf(t, there, "im_dedup_filter_keys") > float64(len(sends)*9/10) })
	}
	before, began := there.store.Stats(), time.Now()
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := s; i < len(sends); i += senders {
				again := there.rules.Send(t.Context(), sends[i:i+1])[0]
				if again.Err != nil || !again.Dup || again.Seq != first[i].Seq || again.MID != first[i].MID {
					t.Errorf("repetition %d got %+v, the first %+v", i, again, first[i])
				}
			}
		})
	}
	wg.Wait()
	took, after := time.Since(began), there.store.Stats()
	t.Logf("with Redis %v: %d repetitions in %v: the store wrote for %d of them, in %d transactions, and read %d times", there.redis != nil,
		len(sends), took.Round(time.Millisecond), after.Dups-before.Dups, after.Commits-before.Commits, after.Reads-before.Reads)
	return after.Dups - before.Dups
}

func metricOf(t *testing.T, p *parts, name string) float64 {
	t.Helper()
	families, err := p.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}
