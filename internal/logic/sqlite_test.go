package logic_test

import (
	"path/filepath"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/sqlstore"
)

// TestTheRulesOnSQLite tells the stories again on the store that servers run on.
// Those that hold or fail commits are not among them, nor those whose store is a
// stand-in.
func TestTheRulesOnSQLite(t *testing.T) {
	memory := openStore
	t.Cleanup(func() { openStore = memory })
	openStore = openSQLite
	for name, story := range map[string]func(*testing.T){
		"sent is stored":         TestWhatIsSentIsInTheLog,
		"at once":                TestFirstAttemptsAtOnceAreOneMessage,
		"after leaving":          TestASenderWhoHasLeftStillGetsTheAnswer,
		"another content":        TestAnotherContentUnderAKnownCMIDIsRefused,
		"one bad send":           TestOneBadSendFailsAlone,
		"body limit":             TestBodiesAtTheLimit,
		"prev":                   TestPrevKeepsTheOrderOfAnOutbox,
		"too fast":               TestASenderWhoIsTooFastWaits,
		"recall":                 TestARecallIsAnEventThatEverybodyIsWokenFor,
		"recalled body":          TestARecalledBodyComesBackByNoRoad,
		"who may recall":         TestWhoMayRecallWhat,
		"no recall window":       TestWithoutAWindowOldMessagesCanBeRecalled,
		"sync":                   TestSyncReadsForwardsAndBackwards,
		"sync refusals":          TestSyncRefusals,
		"not yours":              TestNobodyTellsNotYoursFromNotThere,
		"pages fit":              TestPagesFitIntoAFrame,
		"periods":                TestPeriodsDecideWhatIsSeen,
		"unread":                 TestUnreadCountsOthersMessagesOnly,
		"convs":                  TestConvsPageThroughEveryConversation,
		"same page":              TestThePageIsTheSameUntilItIsAcknowledged,
		"turns":                  TestTurnsAreSharedAndWhatIsLeftIsGivenRoundAgain,
		"ten at a time":          TestAPageIsSharedByTenAtATime,
		"stale pull":             TestAPullOfAnotherInstallIsRefused,
		"cursor":                 TestTheCursorOnlyRisesAndNeverPassesHead,
		"ack refusals":           TestAnAckThatIsRefusedAsAWhole,
		"older connection":       TestAnAckOfAnOlderConnectionMovesNothing,
		"receipts":               TestAMovedCursorIsAReceipt,
		"no receipts":            TestBigConversationsSendNoReceipts,
		"read":                   TestReadingIsAReceipt,
		"who":                    TestWhoHasTheMessage,
		"typing":                 TestTypingNeedsAnOpenPeriod,
		"takeover":               TestANewerSessionOfADeviceIsAnnounced,
		"installs":               TestAReinstalledOrRolledBackDeviceStartsAnew,
		"visit":                  TestAVisitNeverRaisesTheInstall,
		"hello refusals":         TestHelloRefusals,
		"disabled":               TestADisabledUserIsOut,
		"revoked":                TestARevokedTokenIsOutAndANewOneIsIn,
		"epoch":                  TestTheEpochIsKnownWithinASecond,
		"conversations":          TestConversationsAreCreatedOnceAndGrow,
		"conversation refusals":  TestConversationRefusals,
		"joining and leaving":    TestJoiningAndLeavingWake,
		"operator":               TestTheOperatorSpeaksEverywhere,
		"users and devices":      TestUsersAndDevicesAsTheOperatorSeesThem,
		"delivery":               TestDeliverySaysWhoHasTheMessage,
		"pushes":                 TestPushesFollowTheMembersOfTheMoment,
		"another node's members": TestAnotherNodesChangeOfMembersIsSeenAtOnce,
		"audience is cached":     TestASecondLookAtTheMembersCostsNoRead,
		"range":                  TestARangeIsBounded,
		"audience":               TestTheAudience,
		"lagging":                TestLagging,
		"sweep":                  TestTheSweepReadsWhatWasWrittenSince,
	} {
		t.Run(name, story)
	}
}

func openSQLite(t *testing.T, now func() impart.Millis) store.Store {
	t.Helper()
	st, err := sqlstore.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "impart.db"), sqlstore.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return st
}
