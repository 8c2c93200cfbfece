//go:build fault

package fault

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func set(t *testing.T, spec string) {
	t.Helper()
	if err := Set(spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Set("") })
}

func TestAFaultStrikesFromAndCount(t *testing.T) {
	set(t, "gw.push:drop:2:3, send.before_commit:error")
	var struck []int
	for hit := range 8 {
		if errors.Is(At(Push), ErrDropped) {
			struck = append(struck, hit)
		}
	}
	if len(struck) != 3 || struck[0] != 2 || struck[2] != 4 {
		t.Errorf("struck at hits %v, want 2, 3 and 4", struck)
	}
	for range 3 {
		if !errors.Is(At(BeforeCommit), ErrInjected) {
			t.Error("without a count it should strike each time")
		}
	}
	if At(BeforeInsert) != nil {
		t.Error("it strikes where no fault is set")
	}
}

func TestADelayWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set(t, "gw.reply.send:delay=1500")
		began := time.Now()
		if err := At(ReplySend); err != nil || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("waited %v, %v", time.Since(began), err)
		}
	})
}

func TestWrongFaultsAreRefused(t *testing.T) {
	for _, spec := range []string{
		"gw.push", "gw.nothing:drop", "gw.push:explode", "gw.push:delay", "gw.push:delay=x", "gw.push:delay=-1", "gw.push:drop=1",
		"gw.push:drop:x", "gw.push:drop:0:-1", "gw.push:drop:0:1:2", "send.before_insert:drop", "gw.push:drop,", ",",
	} {
		if err := Set(spec); err == nil {
			t.Errorf("%q is taken", spec)
			_ = Set("")
		}
	}
}

func FuzzSet(f *testing.F) {
	f.Add("gw.push:drop:0:1,send.before_insert:halt")
	f.Add("gw.reply.send:delay=100")
	f.Fuzz(func(t *testing.T, spec string) {
		_ = Set(spec)
		_ = Set("")
	})
}
