// Package conformance holds one suite per contract: [Store], [Bus] and
// [Pending]. Every implementation runs the whole suite of its contract; a suite
// checks what the contract promises and never how it is done, so that SQLite,
// PostgreSQL, MySQL and memory can all pass. The package's own tests show that
// each check fails on a store that lacks the guard it is about.
package conformance

import (
	"slices"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Subject is one store under test. Its functions let a story look behind the
// contract; a story fails by name where one that it needs is nil.
type Subject struct {
	// Store is empty and at epoch 1. The suite closes it.
	Store store.Store
	// Reopen closes the store that is open and opens the same data again.
	Reopen func(t *testing.T) store.Store
	// Crash opens the data as a crash at this moment would leave them. What is
	// under way in the old store never counts; it may fail or hang till its end.
	Crash func(t *testing.T) store.Store
	// DedupWrites says how often the dedup row of (user, cmid) was written.
	DedupWrites func(user impart.UserID, cmid impart.CMID) (int64, error)
	// OnCommit sets what runs around the commit of every later write transaction
	// (nil: nothing). before runs after the transaction's last statement and before
	// its COMMIT: while it blocks, the commit is held; its error makes the store roll
	// back. after runs between the COMMIT and the answer; its error is to the store a
	// commit whose outcome it was not told.
	OnCommit func(before, after func() error)
	// Replace, which [SharedStore] needs, puts another history in the place of the one
	// that was accepted, as a promoted standby is: all that has committed is there.
	Replace func(t *testing.T)
	// Second, which [SharedStore] needs, opens the store of another node, on the same
	// data, which the story closes.
	Second func(t *testing.T) store.Store
}

// story is one subtest.
type story struct {
	name string
	tell func(w *world)
}

// topic is a file of stories.
type topic struct {
	name    string
	stories []story
}

// topics are the stories by topic, in the order in which a message travels.
func topics() []topic {
	return []topic{
		{"append", appendStories},
		{"dedup", dedupStories},
		{"keys", keyStories},
		{"values", valueStories},
		{"commit", commitStories},
		{"prev", prevStories},
		{"recall", recallStories},
		{"members", memberStories},
		{"page", pageStories},
		{"cursors", cursorStories},
		{"install", installStories},
		{"epoch", epochStories},
		{"alone", aloneStories},
		{"lagging", laggingStories},
		{"convs", convStories},
		{"report", reportStories},
		{"users", userStories},
		{"retain", retainStories},
		{"written", writtenStories},
		{"life", lifeStories},
		{"load", loadStories},
	}
}

// sharedTopics are the stories of a store that several nodes have at once.
func sharedTopics() []topic {
	return []topic{
		{"failover", failoverStories},
		{"nodes", nodeStories},
	}
}

// Store runs the suite of [store.Store] on a store that is its process's alone.
// open gives a fresh, empty store for each subtest; subtests run in parallel.
func Store(t *testing.T, open func(t *testing.T) Subject) {
	suite(t, topics(), open)
}

// SharedStore runs the suite of [store.Store], with all that concerns several
// nodes, on a store that they share.
func SharedStore(t *testing.T, open func(t *testing.T) Subject) {
	suite(t, append(topics(), sharedTopics()...), open)
}

func suite(t *testing.T, topics []topic, open func(t *testing.T) Subject) {
	for _, topic := range topics {
		topic.run(t, open)
	}
	t.Run("model", func(t *testing.T) {
		t.Parallel()
		model(t, open)
	})
}

// Topics runs a part of the suite, for a store that has passed all of it and is
// now set otherwise.
func Topics(t *testing.T, names []string, open func(t *testing.T) Subject) {
	ran := 0
	for _, topic := range append(topics(), sharedTopics()...) {
		if slices.Contains(names, topic.name) {
			topic.run(t, open)
			ran++
		}
	}
	if ran != len(names) {
		t.Fatalf("%d topics of %v are there", ran, names)
	}
}

func (topic topic) run(t *testing.T, open func(t *testing.T) Subject) {
	t.Run(topic.name, func(t *testing.T) {
		for _, s := range topic.stories {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.tell(newWorld(t, open(t)))
			})
		}
	})
}
