package conformance_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/impart-im/impart/internal/store/memstore"
)

// breakEnv names the guard that the store of [TestMemoryStore] lacks.
const breakEnv = "IMPART_TEST_BREAK"

// noticedBy says which story has to fail on a store without the guard.
var noticedBy = map[memstore.Break]string{
	memstore.BreakUniqueKey:        "dedup/a resend gets the first answer and stores nothing",
	memstore.BreakFoldCase:         "keys/case alone makes another cmid",
	memstore.BreakTrimSpace:        "keys/a trailing space makes another cmid",
	memstore.BreakKeysCollide:      "keys/sender and cmid cannot run into one another",
	memstore.BreakHashCheck:        "dedup/a key is one message for ever",
	memstore.BreakDupWithoutWrite:  "dedup/a duplicate changes its row",
	memstore.BreakDedupAfterMember: "dedup/who has left is told of the stored message",
	memstore.BreakBatchIsolation:   "append/one bad item fails alone",
	memstore.BreakOrderInCall:      "append/items of one call are stored in order",
	memstore.BreakSeqHole:          "append/a refused item leaves no trace",
	memstore.BreakRollbackSeq:      "commit/a failed commit gives its seq and its key back",
	memstore.BreakRollbackDedup:    "commit/a failed commit gives its seq and its key back",
	memstore.BreakEarlyVisibility:  "commit/no reader passes a seq that has not committed",
	memstore.BreakUncommitted:      "commit/nothing is visible or answered before its commit",
	memstore.BreakReadYourWrites:   "page/what was written is read at once",
	memstore.BreakSnapshot:         "load/readers never see a gap under load",
	memstore.BreakMembership:       "append/only members may send",
	memstore.BreakPrev:             "prev/a message is not stored before the one it follows",
	memstore.BreakPrevInCall:       "prev/a chain may come in one call",
	memstore.BreakRecallRights:     "recall/only the sender or an admin may recall",
	memstore.BreakRecallWindow:     "recall/the window is up to a millisecond",
	memstore.BreakRecallTwice:      "recall/a recall is idempotent by its cmid",
	memstore.BreakRecallBody:       "recall/a recalled body is gone",
	memstore.BreakRecallVisibility: "recall/a recall is seen by whoever saw its target",
	memstore.BreakMembershipPage:   "members/joined at 50, left at 80, back at 120",
	memstore.BreakLastLeave:        "members/a former member keeps what they saw",
	memstore.BreakHistoryPolicy:    "members/with history all a newcomer sees everything",
	memstore.BreakMembersVersion:   "members/the audience is who may see, and its version tells changes",
	memstore.BreakThrough:          "page/pages follow one another without gap or overlap",
	memstore.BreakAfterMID:         "page/another mid at the client's place is another history",
	memstore.BreakPageBytes:        "page/a page ends before it is too large",
	memstore.BreakCursorMonotonic:  "cursors/the highest ack counts",
	memstore.BreakCursorAhead:      "cursors/nothing passes head",
	memstore.BreakInstallEpoch:     "install/a reinstalled device starts anew",
	memstore.BreakStaleInstall:     "install/a reinstalled device starts anew",
	memstore.BreakOldSession:       "install/an ack of an older connection moves nothing",
	memstore.BreakRefusedN:         "install/an ack that is refused raises no n",
	memstore.BreakNCounter:         "install/a store that was rolled back is a new install",
	memstore.BreakEpochCursor:      "epoch/cursors of an older epoch count as their start",
	memstore.BreakEpochRead:        "epoch/cursors of an older epoch count as their start",
	memstore.BreakEpochCheck:       "epoch/requests of an older epoch are refused",
	memstore.BreakHistoryStart:     "install/the start counts what one may see",
	memstore.BreakReadMonotonic:    "cursors/the highest read counts, for all devices",
	memstore.BreakReadAhead:        "cursors/nothing passes head",
	memstore.BreakFurthest:         "cursors/the furthest of a user's devices is told",
	memstore.BreakFloor:            "retain/cursors below floor count as being at it",
	memstore.BreakLaggingOrder:     "lagging/whoever has waited longest comes first",
	memstore.BreakUnread:           "convs/unread counts messages of others above read",
	memstore.BreakConvLast:         "convs/last is the newest event that one may see",
	memstore.BreakReport:           "report/who has the event is told device by device",
	memstore.BreakWrittenSince:     "written/since is included",
	memstore.BreakRetainBound:      "retain/retention is bounded",
	memstore.BreakRetainDedup:      "retain/what is gone is still known by its key",
	memstore.BreakDedupRecalled:    "retain/the row of a recalled message is never cleaned",
	memstore.BreakDedupEvents:      "retain/where the row is gone the events decide",
	memstore.BreakTimePrecision:    "values/milliseconds are kept",
	memstore.BreakTextFold:         "values/text comes back byte for byte",
	memstore.BreakReopen:           "life/a reopened store knows everything",
	memstore.BreakClose:            "life/a closed store refuses everything",
	memstore.BreakSentBeforeCommit: "commit/nothing is visible or answered before its commit",
	memstore.BreakSharedCommit:     "commit/writes that arrive during a commit share the next one",
	memstore.BreakSeqTwice:         "load/many at once in one conversation",
	memstore.BreakGivenUp:          "commit/a caller who gives up leaves nothing half done",
	memstore.BreakReadAnywhere:     "page/who was never a member reads nothing",
	memstore.BreakNotFound:         "members/what does not exist is not found",
	memstore.BreakConflict:         "members/another kind or history is a conflict",
	memstore.BreakDirect:           "members/a direct conversation has two members for ever",
	memstore.BreakJoinTwice:        "members/joining twice and leaving twice happen once",
	memstore.BreakRoleKept:         "members/a role is kept until it is changed",
	memstore.BreakHelloOrder:       "install/a hello that was held up does not outdo one that was said later",
	memstore.BreakSession:          "install/sessions rise over reinstalls and at once",
	memstore.BreakStandingUser:     "users/whoever is barred is told with the sessions",
	memstore.BreakHelloUser:        "users/a user is known by PUT or by hello",
	memstore.BreakVisitRaises:      "install/a visit registers and never raises",
	memstore.BreakDisabled:         "users/a user is barred and readmitted",
	memstore.BreakRevoked:          "users/a revocation only rises",
	memstore.BreakEpochRaise:       "epoch/an epoch is raised to the time, and always by one at least",
	memstore.BreakConvsPage:        "convs/the list is paged by id",
	memstore.BreakIncarnation:      "life/the incarnation outlives a restart",
	memstore.BreakSettings:         "life/the store answers for its health and settings",
	memstore.BreakHalt:             "failover/in a history that was not accepted nothing is written or read",
	memstore.BreakCloseWaits:       "life/closing finishes what is under way",
}

// TestBrokenStore runs the suite on stores that lack one guard each, and wants
// it to fail at the story that is about it.
func TestBrokenStore(t *testing.T) {
	for _, b := range memstore.Breaks() {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			fails(t, string(b), "TestMemoryStore/"+noticedBy[b])
		})
	}
	if len(noticedBy) != len(memstore.Breaks()) {
		t.Errorf("there are %d guards, and stories for %d", len(memstore.Breaks()), len(noticedBy))
	}
}

// TestBrokenModel shows that the comparison with the model fails too.
func TestBrokenModel(t *testing.T) {
	for _, b := range []memstore.Break{
		memstore.BreakUniqueKey, memstore.BreakHistoryStart, memstore.BreakEpochCursor, memstore.BreakMembershipPage,
		memstore.BreakFloor, memstore.BreakUnread, memstore.BreakNCounter, memstore.BreakRecallRights,
		memstore.BreakOldSession,
	} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			fails(t, string(b), "TestMemoryStore/model", "-rapid.nofailfile", "-rapid.shrinktime=0s", "-rapid.seed=1", "-rapid.checks=1000")
		})
	}
}

func TestBrokenBus(t *testing.T) {
	for fault, story := range busNoticedBy {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			fails(t, fault, "TestLocalBus/"+story)
		})
	}
}

func TestBrokenPending(t *testing.T) {
	for fault, story := range pendingNoticedBy {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			fails(t, fault, "TestLocalPending/"+story)
		})
	}
}

// fails runs one subtest in a process in which a guard is missing, and wants it
// to fail.
func fails(t *testing.T, missing, name string, args ...string) {
	t.Helper()
	if os.Getenv(breakEnv) != "" {
		t.Fatalf("%s is set: nothing broken can be tested on something broken", breakEnv)
	}
	name = strings.ReplaceAll(name, " ", "_")
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-test.run=" + pattern(name), "-test.count=1"}, args...)...)
	cmd.Env = append(os.Environ(), breakEnv+"="+missing)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("the suite passes without this guard:\n%s", out)
	}
	if !strings.Contains(string(out), "--- FAIL: "+name) {
		t.Errorf("%s did not fail (%v):\n%s", name, err, out)
	}
}

// pattern matches one subtest and nothing else.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}
