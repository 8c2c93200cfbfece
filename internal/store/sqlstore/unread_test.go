package sqlstore

import (
	"context"
	"testing"
	"time"

	"github.com/impart-im/impart"
)

// convsOf lists a user's conversations, which may take as long as a caller waits.
func convsOf(t *testing.T, w *world, user impart.UserID) map[impart.ConvID]impart.ConvState {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	page, err := w.Convs(ctx, user, "", "", impart.MaxLimit, impart.MaxPage)
	if err != nil {
		t.Fatalf("the list of %s: %v", user, err)
	}
	out := map[impart.ConvID]impart.ConvState{}
	for _, c := range page.Convs {
		out[c.Conv] = c
	}
	return out
}

// A row whose head somebody has set beyond all reason costs its own numbers, and not
// the list with the other conversations.
func TestAHeadFarAwayTakesAwayNoList(t *testing.T) {
	w := newWorld(t, Options{})
	w.group("far", "ana", "ben")
	w.group("before", "ana", "ben")
	w.group("near", "ana", "ben")
	for _, conv := range []impart.ConvID{"far", "before", "near"} {
		w.sends(w.msg("ben", conv, "m-"+impart.CMID(conv), "x"))
	}
	w.must(w.direct(t.Context(), func(tx *txn) error {
		tx.convs.clear()
		if _, err := tx.exec("UPDATE conversations SET next_seq = -5 WHERE conv_id = 'before'"); err != nil {
			return err
		}
		_, err := tx.exec("UPDATE conversations SET next_seq = 4611686018427387904 WHERE conv_id = 'far'")
		return err
	}))
	convs := convsOf(t, w, "ana")
	if near := convs["near"]; near.Head != 1 || near.Unread != 1 || near.Last == nil {
		t.Errorf("the other conversation is %+v", near)
	}
	if far, before := convs["far"], convs["before"]; len(convs) != 3 || far.Head != impart.MaxNumber || before.Head != 0 {
		t.Errorf("the damaged ones are %+v and %+v", far, before)
	}
}

// A bot that sends and never reads has a long log of its own above its read cursor:
// what is unread is found among the newest first, and the look back ends.
func TestALongLogOfOnesOwnEndsTheCount(t *testing.T) {
	const own = unreadMost + 2*unreadStep
	w := newWorld(t, Options{})
	w.group("c", "bot", "ana")
	w.sends(w.msg("ana", "c", "first", "x"))
	w.must(w.direct(t.Context(), func(tx *txn) error {
		tx.convs.clear()
		_, err := tx.exec("WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i <= ?)"+
			" INSERT INTO events (conv_id, seq, kind, mid, sender, device, cmid, type, body, at) SELECT 'c', i, 'msg', 'own-' || i, 'bot', '', 'own-' || i, 'text', '', 1 FROM n", own)
		if err == nil {
			_, err = tx.exec("UPDATE conversations SET next_seq = ? WHERE conv_id = 'c'", own+2)
		}
		return err
	}))
	if last := w.sends(w.msg("ana", "c", "last", "x")); last != own+2 {
		t.Fatalf("the last seq is %d", last)
	}
	if c := convsOf(t, w, "bot")["c"]; c.Unread != 1 {
		t.Errorf("of a log that is longer than what is looked through %d are unread, not the newest alone", c.Unread)
	}
}
