package memstore

import (
	"maps"
	"slices"
	"strings"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Break names one guard that a broken store lacks. The conformance suite has to
// notice each of them; see the test that runs it against all of them.
type Break string

// The guards that can be switched off, each in one place.
const (
	BreakUniqueKey        Break = "unique-key"           // a known key is stored again
	BreakFoldCase         Break = "fold-case"            // keys that differ in case are one
	BreakTrimSpace        Break = "trim-space"           // keys that differ in trailing spaces are one
	BreakKeysCollide      Break = "keys-collide"         // sender and cmid are joined without a border
	BreakHashCheck        Break = "hash-check"           // another content under a known key is a duplicate
	BreakDupWithoutWrite  Break = "dup-without-write"    // a duplicate is answered from a read
	BreakDedupAfterMember Break = "dedup-after-member"   // who has left gets NOT_MEMBER for a stored message
	BreakBatchIsolation   Break = "batch-isolation"      // one refused item fails its neighbours
	BreakOrderInCall      Break = "order-in-call"        // items of one call are stored last first
	BreakSeqHole          Break = "seq-hole"             // a refused item uses up a seq
	BreakRollbackSeq      Break = "rollback-seq"         // a transaction that rolled back uses up a seq
	BreakRollbackDedup    Break = "rollback-keeps-dedup" // a transaction that rolled back leaves its dedup rows
	BreakEarlyVisibility  Break = "early-visibility"     // n+1 is visible before n
	BreakUncommitted      Break = "uncommitted-read"     // a transaction is visible before it commits
	BreakReadYourWrites   Break = "read-your-writes"     // a page misses what was stored last
	BreakSnapshot         Break = "snapshot"             // head is of another moment than the events
	BreakMembership       Break = "membership"           // everybody may send
	BreakPrev             Break = "prev"                 // prev is not looked at
	BreakPrevInCall       Break = "prev-in-call"         // prev does not see the items before it in its call
	BreakRecallRights     Break = "recall-rights"        // everybody may recall
	BreakRecallWindow     Break = "recall-window"        // messages of any age may be recalled
	BreakRecallTwice      Break = "recall-twice"         // a recalled message may be recalled again
	BreakRecallBody       Break = "recall-body"          // the target keeps its body
	BreakRecallVisibility Break = "recall-visibility"    // a recall is visible by its own seq
	BreakMembershipPage   Break = "membership-page"      // pages show everything to whoever was ever a member
	BreakLastLeave        Break = "last-leave"           // one's own leave is not visible
	BreakHistoryPolicy    Break = "history-policy"       // history "all" is taken for from_join
	BreakMembersVersion   Break = "members-version"      // joining and leaving leave the version as it is
	BreakThrough          Break = "through"              // through is head though the page ended early
	BreakAfterMID         Break = "after-mid"            // after_mid is not compared
	BreakPageBytes        Break = "page-bytes"           // MaxBytes bounds nothing
	BreakCursorMonotonic  Break = "cursor-monotonic"     // the last ack wins
	BreakCursorAhead      Break = "cursor-ahead"         // an ack beyond head is taken
	BreakInstallEpoch     Break = "install-epoch"        // cursors of an earlier install count
	BreakStaleInstall     Break = "stale-install"        // acks of an earlier install are taken
	BreakOldSession       Break = "old-session"          // acks of an older connection are taken
	BreakRefusedN         Break = "refused-n"            // an ack that is refused raises n all the same
	BreakNCounter         Break = "n-counter"            // a rolled-back store is not noticed
	BreakEpochCursor      Break = "epoch-cursor"         // cursors of an older epoch count
	BreakEpochRead        Break = "epoch-read"           // read cursors of an older epoch count
	BreakEpochCheck       Break = "epoch-check"          // requests of an older epoch are taken
	BreakHistoryStart     Break = "history-start"        // start_seq counts seqs instead of visible events
	BreakReadMonotonic    Break = "read-monotonic"       // the last read wins
	BreakReadAhead        Break = "read-ahead"           // a read beyond head is taken
	BreakFurthest         Break = "furthest"             // furthest is the device's own cursor
	BreakFloor            Break = "floor"                // cursors below floor count as they are
	BreakLaggingOrder     Break = "lagging-order"        // by id alone
	BreakUnread           Break = "unread"               // one's own messages count as unread
	BreakConvLast         Break = "conv-last"            // last is the end of the log, visible or not
	BreakReport           Break = "report"               // the report counts devices by delivered > 0
	BreakWrittenSince     Break = "written-since"        // what was written exactly at since is left out
	BreakRetainBound      Break = "retain-bound"         // retention is not bounded
	BreakRetainDedup      Break = "retain-dedup"         // retention takes the dedup rows along
	BreakDedupRecalled    Break = "dedup-clean-recalled" // cleaning takes dedup rows of recalled messages
	BreakDedupEvents      Break = "dedup-events"         // cleaned rows are not replaced by the events
	BreakTimePrecision    Break = "time-precision"       // times are kept in seconds
	BreakTextFold         Break = "text-bytes"           // trailing white space of bodies is lost
	BreakReopen           Break = "reopen"               // reading back loses the read cursors
	BreakClose            Break = "close"                // a closed store goes on
	BreakSentBeforeCommit Break = "sent-before-commit"   // the answer does not wait for the commit
	BreakSharedCommit     Break = "shared-commit"        // every write waits for a commit of its own
	BreakSeqTwice         Break = "seq-twice"            // two writers now and then get the same seq
	BreakGivenUp          Break = "given-up"             // a call that was given up leaves its dedup rows
	BreakReadAnywhere     Break = "read-anywhere"        // whoever was never a member may read
	BreakNotFound         Break = "not-found"            // an unknown conversation is an empty one
	BreakConflict         Break = "conflict"             // a conversation may change its kind and history
	BreakDirect           Break = "direct"               // a direct conversation is like any other
	BreakJoinTwice        Break = "join-twice"           // a member who joins is announced again
	BreakRoleKept         Break = "role-kept"            // a role that is not named becomes member
	BreakHelloOrder       Break = "hello-order"          // a hello that was held up outdoes a later one
	BreakSession          Break = "session"              // sessions stay as they are
	BreakStandingUser     Break = "standing-user"        // a standing does not tell that the user is barred
	BreakHelloUser        Break = "hello-user"           // a hello does not make its user known
	BreakVisitRaises      Break = "visit-raises"         // a visit with another install raises the install epoch
	BreakDisabled         Break = "disabled"             // a field that is not named is reset
	BreakRevoked          Break = "revoked"              // the last revocation wins
	BreakEpochRaise       Break = "epoch-raise"          // a raised epoch may be lower
	BreakConvsPage        Break = "convs-page"           // a page of conversations begins with the last of the page before
	BreakIncarnation      Break = "incarnation"          // each opening is another incarnation
	BreakSettings         Break = "settings"             // no setting is told
	BreakCloseWaits       Break = "close-waits"          // closing does not wait for what is under way
	BreakHalt             Break = "halt"                 // another history is taken for the accepted one
)

// Breaks lists every switch.
func Breaks() []Break {
	return []Break{
		BreakUniqueKey, BreakFoldCase, BreakTrimSpace, BreakKeysCollide, BreakHashCheck, BreakDupWithoutWrite,
		BreakDedupAfterMember, BreakBatchIsolation, BreakOrderInCall, BreakSeqHole, BreakRollbackSeq,
		BreakRollbackDedup, BreakEarlyVisibility, BreakUncommitted, BreakReadYourWrites, BreakSnapshot,
		BreakMembership, BreakPrev, BreakPrevInCall, BreakRecallRights, BreakRecallWindow, BreakRecallTwice,
		BreakRecallBody, BreakRecallVisibility, BreakMembershipPage, BreakLastLeave, BreakHistoryPolicy,
		BreakMembersVersion, BreakThrough, BreakAfterMID, BreakPageBytes, BreakCursorMonotonic,
		BreakCursorAhead, BreakInstallEpoch, BreakStaleInstall, BreakOldSession, BreakRefusedN, BreakNCounter, BreakEpochCursor,
		BreakEpochRead, BreakEpochCheck, BreakHistoryStart, BreakReadMonotonic, BreakReadAhead, BreakFurthest,
		BreakFloor, BreakLaggingOrder, BreakUnread, BreakConvLast, BreakReport, BreakWrittenSince,
		BreakRetainBound, BreakRetainDedup, BreakDedupRecalled, BreakDedupEvents, BreakTimePrecision,
		BreakTextFold, BreakReopen, BreakClose,
		BreakSentBeforeCommit, BreakSharedCommit, BreakSeqTwice, BreakGivenUp, BreakReadAnywhere, BreakNotFound, BreakConflict, BreakDirect, BreakJoinTwice, BreakRoleKept, BreakHelloOrder, BreakSession, BreakStandingUser, BreakHelloUser, BreakVisitRaises, BreakDisabled, BreakRevoked, BreakEpochRaise, BreakConvsPage, BreakIncarnation, BreakSettings, BreakCloseWaits, BreakHalt,
	}
}

// messageKey is the unique key of a message: the pair, byte for byte.
func (s *Store) messageKey(user impart.UserID, cmid impart.CMID) messageKey {
	if s.breaks[BreakFoldCase] {
		user, cmid = impart.UserID(strings.ToLower(string(user))), impart.CMID(strings.ToLower(string(cmid)))
	}
	if s.breaks[BreakTrimSpace] {
		user, cmid = impart.UserID(strings.TrimRight(string(user), " ")), impart.CMID(strings.TrimRight(string(cmid), " "))
	}
	if s.breaks[BreakKeysCollide] {
		user, cmid = user+":"+impart.UserID(cmid), ""
	}
	return messageKey{user, cmid}
}

// leak is what a store without a guard leaves of a transaction that rolled back.
// A correct one leaves nothing.
func (s *Store) leak(apply func(*state)) {
	if !s.breaks[BreakRollbackSeq] && !s.breaks[BreakRollbackDedup] {
		return
	}
	d := s.on()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state.leakInto(apply, s.breaks[BreakRollbackDedup])
}

// giveUp is what such a store leaves of a transaction that never began.
func (s *Store) giveUp(apply func(*state)) {
	if s.breaks[BreakGivenUp] {
		d := s.on()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.state.leakInto(apply, true)
	}
}

// leakInto applies a transaction, takes its events back, and keeps either its
// dedup rows or the seqs that it used.
func (st *state) leakInto(apply func(*state), keepDedup bool) {
	type mark struct {
		log  []*impart.Event
		head impart.Seq
	}
	marks, known := map[*conversation]mark{}, maps.Clone(st.dedup)
	for _, c := range st.convs {
		marks[c] = mark{slices.Clone(c.log), c.head}
	}
	apply(st)
	for c, m := range marks {
		c.log = m.log
		if keepDedup {
			c.head = m.head
		}
	}
	if !keepDedup {
		st.dedup = known
	}
}

// most is how many of n jobs share a commit.
func (s *Store) most(n int) int {
	if s.breaks[BreakSharedCommit] {
		return 1
	}
	return max(n, 1)
}

// afterRefusal refuses an item, and uses up a seq for it in a broken store.
func (s *Store) afterRefusal(st *state, a *store.Append, err error) store.Appended {
	if c := st.convs[a.Conv]; c != nil && s.breaks[BreakSeqHole] {
		c.head++
	}
	return refusal(st, err)
}

// failTogether takes back what the items of one call stored.
func (s *Store) failTogether(st *state, items []store.Append, out []store.Appended, err error) {
	for i := range out {
		if out[i].Err == nil && !out[i].Dup {
			c := st.convs[items[i].Conv]
			c.log = slices.DeleteFunc(c.log, func(ev *impart.Event) bool { return ev.MID == out[i].MID })
			c.head--
			delete(st.dedup, s.messageKey(items[i].Sender, items[i].CMID))
		}
		out[i] = refusal(st, err)
	}
}

// coarsen loses what a careless column type loses.
func (s *Store) coarsen(ev *impart.Event) {
	if s.breaks[BreakTimePrecision] {
		ev.At -= ev.At % 1000
	}
	if s.breaks[BreakTextFold] {
		ev.Body = strings.TrimRight(ev.Body, " \n")
	}
}

// applyEarly is how a store without isolation commits: readers see the
// transaction before it has committed, or with early visibility another writer
// goes ahead and its events, with higher seqs, are visible first.
func (s *Store) applyEarly(apply func(*state)) error {
	d := s.on()
	d.mu.Lock()
	st := &d.state
	before := map[*impart.Event]bool{}
	for _, c := range st.convs {
		for _, ev := range c.log {
			before[ev] = true
		}
	}
	apply(st)
	var added []*impart.Event
	for _, c := range st.convs {
		for _, ev := range c.log {
			if !before[ev] {
				added = append(added, ev)
				st.hidden[ev] = s.breaks[BreakEarlyVisibility]
			}
		}
	}
	d.mu.Unlock()

	if s.breaks[BreakEarlyVisibility] {
		s.turn <- struct{}{}
		defer func() { <-s.turn }()
	}
	err := s.run(&s.before)

	d.mu.Lock()
	defer d.mu.Unlock()
	for _, ev := range added {
		delete(st.hidden, ev)
	}
	return err
}

// prevBefore checks prev as the store was before the call, in a broken store.
func (s *Store) prevBefore(st *state, items []store.Append) []error {
	errs := make([]error, len(items))
	if s.breaks[BreakPrevInCall] {
		for i := range items {
			errs[i] = s.checkPrev(st, &items[i])
		}
	}
	return errs
}
