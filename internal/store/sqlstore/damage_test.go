package sqlstore

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Somebody has changed the row of a conversation by hand. No message may get a seq that
// is none, or leave a hole behind it (D7), whether the node has met the conversation or
// not; the others go on, what was stored is known, and a mended row is taken again.
func TestPostgresANextSeqThatDoesNotFollowTheLogIsRefused(t *testing.T) {
	var log lockedBuffer
	w, p := newPgWorld(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	aTornConversation(t, w, openPgWorld(t, p.dsn(), Options{}), &log, func(conv, next string) {
		p.exec(t, fmt.Sprintf("UPDATE %s.conversations SET next_seq = %s WHERE conv_id = '%s'", p.name, next, conv))
	})
}

func TestMySQLANextSeqThatDoesNotFollowTheLogIsRefused(t *testing.T) {
	var log lockedBuffer
	w, p := newMyWorld(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	aTornConversation(t, w, openPgWorld(t, p.dsn(), Options{}), &log, func(conv, next string) {
		p.exec(t, fmt.Sprintf("UPDATE conversations SET next_seq = %s WHERE conv_id = '%s'", next, conv))
	})
}

func TestANextSeqThatDoesNotFollowTheLogIsRefused(t *testing.T) {
	var log lockedBuffer
	w := newWorld(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	aTornConversation(t, w, w, &log, func(conv, next string) {
		w.must(w.direct(t.Context(), func(tx *txn) error {
			tx.convs.clear() // as after a start: nobody else changes the file of one that runs
			return tx.one("UPDATE conversations SET next_seq = "+next+" WHERE conv_id = ?", conv)
		}))
	})
}

func aTornConversation(t *testing.T, w, other *world, log *lockedBuffer, set func(conv, next string)) {
	w.group("beside", "ana")
	for _, conv := range []impart.ConvID{"met", "unmet"} {
		w.group(conv, "ana", "ben")
		for i := range 3 {
			w.sends(w.msg("ana", conv, impart.CMID(fmt.Sprint(conv, i)), "x"))
		}
	}
	nodes := []*world{w, other}
	for i, node := range nodes { // both append to this one
		if out := node.Append(t.Context(), []store.Append{w.msg("ben", "met", impart.CMID(fmt.Sprint("ben", i)), "x")})[0]; out.Err != nil {
			t.Fatal(out.Err)
		}
	}
	ends := map[impart.ConvID]string{"met": "6", "unmet": "4"}
	for round, next := range []string{"next_seq + 5", "-5", "0", "-9223372036854775808", "4611686018427387904", "9007199254740992"} {
		for conv, end := range ends {
			set(string(conv), next)
			for n, node := range nodes {
				what := fmt.Sprintf("next_seq = %s of %s at node %d", next, conv, n)
				out := node.Append(t.Context(), []store.Append{
					w.msg("ana", conv, impart.CMID(fmt.Sprint("late-", conv)), "x"),
					w.msg("ana", "beside", impart.CMID(fmt.Sprint("beside-", round, conv, n)), "x"),
					w.msg("ana", conv, impart.CMID(fmt.Sprint(conv, 1)), "x"),
				})
				if e := impart.AsError(out[0].Err); e == nil || e.Code != impart.Unavailable || e.RetryAfter == 0 || out[1].Err != nil || out[2].Seq != 2 || !out[2].Dup {
					t.Errorf("%s: the outcomes are %+v", what, out)
				}
				if _, _, err := node.PutMember(t.Context(), conv, impart.Member{User: "cyd"}, "ana", w.stamp); impart.AsError(err) == nil || impart.AsError(err).Code != impart.Unavailable {
					t.Errorf("%s: a member who joins gets %v", what, err)
				}
			}
			set(string(conv), end)
		}
	}
	if got := log.String(); !strings.Contains(got, `next_seq of \"unmet\" is 9, and its log ends at seq 3`) || strings.Count(got, "level=ERROR") != len(ends) {
		t.Errorf("the log does not name each damage once:\n%s", got)
	}
	for conv := range ends {
		for n, node := range nodes {
			if out := node.Append(t.Context(), []store.Append{w.msg("ana", conv, impart.CMID(fmt.Sprint("late-", conv, n)), "x")})[0]; out.Err != nil {
				t.Errorf("after the mending: %v", out.Err)
			}
		}
		w.whole("ana", conv)
	}
}

// A writer looks at the log of a conversation that is its own once, and of one that
// others write to as well each time; then it forgets them in turn.
func TestAWriterLooksOnceAtTheLogOfWhatIsItsOwn(t *testing.T) {
	tx := &txn{writer: &writer{caches: newCaches(), tails: newTails()}}
	looked := func(next impart.Seq) (with, after bool) {
		with = len(tx.unsure([]impart.ConvID{"c"})) > 0
		c := &convState{id: "c", next: next}
		tx.convs.put("c", c)
		if err := tx.checkTails([]impart.ConvID{"c"}, func([]impart.ConvID) error { after = true; return nil }); err != nil || !c.whole {
			t.Fatalf("next %d: whole %t, %v", next, c.whole, err)
		}
		c.next++
		tx.leaveTails(&plan{convs: []*convState{c}})
		return with, after
	}
	for i, step := range []struct {
		next        impart.Seq
		with, after bool
	}{
		{1, true, false},  // it is new
		{2, false, false}, // it is as it was left
		{3, false, false},
		{7, false, true}, // somebody else was here
		{9, true, false},
		{10, true, false}, // nobody was
		{11, false, false},
	} {
		if with, after := looked(step.next); with != step.with || after != step.after {
			t.Errorf("step %d: looked with the row %t, after it %t", i, with, after)
		}
	}
}
