package lab

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/impart-im/impart/internal/fault"
)

// TestTheTearDownIsNoStory: what ends because the check has ended is not told, but
// a wreck that is found then is.
func TestTheTearDownIsNoStory(t *testing.T) {
	c := guarded()
	c.Run = func(_ context.Context, b *Bench) {
		b.Bit("x", 1)
		b.Note("ana", "lost", "in the middle")
		b.Cleanup(func() {
			b.Note("ana", "lost", "use of closed network connection")
			b.Violated("server has a panic in its log")
		})
	}
	out := filepath.Join(t.TempDir(), "r")
	r := runChecks(t, Options{Out: out}, c)
	moments, err := ReadMoments(Folder(out, "guarded", ""))
	if err != nil || len(moments) != 2 || moments[0].Text != "in the middle" || moments[1].What != "violated" {
		t.Errorf("%+v, %v", moments, err)
	}
	if r.Checks[0].Verdict != Fail {
		t.Error("the wreck is no failure")
	}
}

func TestALoadHidesNoKill(t *testing.T) {
	c := guarded()
	c.Run = func(_ context.Context, b *Bench) {
		for range maxMoments + 10 {
			b.Note("ana", "send", "x")
		}
		b.Note("disk", "cut", "power cut")
	}
	out := filepath.Join(t.TempDir(), "r")
	runChecks(t, Options{Out: out}, c)
	moments, err := ReadMoments(Folder(out, "guarded", ""))
	if err != nil || len(moments) != maxMoments+1 || moments[maxMoments].What != "cut" {
		t.Errorf("%d moments, %v", len(moments), err)
	}
}

func TestStrikesAreFoundByTheirLine(t *testing.T) {
	if !strings.HasPrefix(fault.Struck(fault.Push), strikeBegin) {
		t.Errorf("a process writes %q and the lab looks for %q", fault.Struck(fault.Push), strikeBegin)
	}
	var told []string
	begun := strikes([]byte("ready\nfault struck point=gw.push action=drop\nfault stru"), func(s string) { told = append(told, s) })
	begun = strikes(append(begun, "ck point=gw.ack action=drop\n"...), func(s string) { told = append(told, s) })
	if len(begun) > 0 || strings.Join(told, ", ") != "point=gw.push action=drop, point=gw.ack action=drop" {
		t.Errorf("%q is left, told %q", begun, told)
	}
}
