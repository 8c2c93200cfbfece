package memstore_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/memstore"
)

func withAna(t *testing.T) *memstore.Store {
	t.Helper()
	s := memstore.New(memstore.Options{})
	spec := impart.ConvSpec{Conv: "c", Kind: impart.Group, Members: []impart.Member{{User: "ana"}}}
	if _, _, err := s.PutConversation(t.Context(), spec, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func hi(cmid impart.CMID) []store.Append {
	return []store.Append{{Kind: impart.KindMsg, Sender: "ana", Conv: "c", CMID: cmid, MID: impart.MID("m-" + cmid), Body: "hi"}}
}

func head(t *testing.T, s *memstore.Store) impart.Seq {
	t.Helper()
	info, err := s.Conversation(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	return info.Head
}

func TestAHeldCommitIsInvisibleAndForgottenByACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withAna(t)
		release := make(chan struct{})
		s.OnCommit(func() error { <-release; return nil }, nil)
		result := make(chan store.Appended)
		go func() { result <- s.Append(t.Context(), hi("1"))[0] }()
		synctest.Wait()
		if got := head(t, s); got != 0 {
			t.Errorf("head is %d while the commit is held", got)
		}
		s.Crash()
		close(release)
		if got := <-result; impart.CodeOf(got.Err) != impart.Unavailable {
			t.Errorf("the held append got %v, want UNAVAILABLE", got.Err)
		}
		if got := s.Append(t.Context(), hi("2"))[0]; impart.CodeOf(got.Err) != impart.Unavailable {
			t.Errorf("an append to a crashed store got %v", got.Err)
		}
		if got := s.Reopen().Append(t.Context(), hi("1"))[0]; got.Err != nil || got.Seq != 1 || got.Dup {
			t.Errorf("after the crash the message got %+v, want seq 1", got)
		}
	})
}

func TestACrashAfterTheCommitKeepsIt(t *testing.T) {
	s := withAna(t)
	s.OnCommit(nil, func() error { s.Crash(); return nil })
	if got := s.Append(t.Context(), hi("1"))[0]; impart.CodeOf(got.Err) != impart.Unavailable {
		t.Errorf("the append got %v, want an unknown outcome", got.Err)
	}
	if got := s.Reopen().Append(t.Context(), hi("1"))[0]; got.Err != nil || got.Seq != 1 || !got.Dup {
		t.Errorf("after the crash the resend got %+v, want the duplicate of seq 1", got)
	}
}

func TestAFailedCommitLeavesNothing(t *testing.T) {
	s := withAna(t)
	broken := errors.New("disk full")
	s.OnCommit(func() error { return broken }, nil)
	if got := s.Append(t.Context(), hi("1"))[0]; !errors.Is(got.Err, broken) {
		t.Errorf("got %v, want the commit's error", got.Err)
	}
	s.OnCommit(nil, nil)
	if got := s.Append(t.Context(), hi("1"))[0]; got.Err != nil || got.Seq != 1 || got.Dup {
		t.Errorf("the retry got %+v, want seq 1", got)
	}
}
