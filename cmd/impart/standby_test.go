package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/internal/api"
	"github.com/impart-im/impart/internal/lab/postgres"
	"github.com/impart-im/impart/internal/store"
)

// says waits until the readiness of every server contains each of the texts.
func (p *pair) says(texts ...string) {
	p.t.Helper()
	for _, n := range p.nodes {
		eventually(p.t, "readiness that says "+strings.Join(texts, ", "), func() bool {
			said := get(p.t, n.url+"/readyz")
			for _, text := range texts {
				if !strings.Contains(said, text) {
					return false
				}
			}
			return true
		})
	}
}

func TestCommitsThatWaitForAStandbyThatIsGoneAreToldAsThat(t *testing.T) {
	t.Parallel()
	p := newPair(t, true, "IM_REPLICATION=sync")
	p.people[0].say("before")
	p.people[0].settle()
	if code, out := impartCommand(t, []string{"IM_STORE=" + p.primary.DSN("im"), "IM_REPLICATION=sync"}, "doctor"); code != 0 || !strings.Contains(out, "a commit waits for it") {
		t.Errorf("with its one standby the doctor ends with %d:\n%s", code, out)
	}
	if err := p.standby.Stop(t.Context(), postgres.Fast); err != nil {
		t.Fatal(err)
	}
	p.people[0].say("meanwhile")
	p.people[1].say("meanwhile, too")
	p.says("ready", "store: nothing can be stored: commits wait for a synchronous standby, and none is connected", "ALTER SYSTEM RESET synchronous_standby_names")
	// The clock was alarmed by how long commits had waited.
	eventually(t, "a commit that has waited for 4 s", func() bool {
		long, err := postgres.Ask[bool](t.Context(), p.primary, "im", "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND clock_timestamp() - query_start > interval '4 seconds'")
		return err == nil && long
	})
	for _, n := range p.nodes {
		if waiting := counter(t, n, "im_store_waiting_for_standby"); waiting < 1 {
			t.Errorf("%v sessions wait", waiting)
		}
		if strings.Contains(n.log(), "clock differs") || counter(t, n, "im_store_clock_offset_seconds") != 0 {
			t.Errorf("a false alarm of the clock:\n%s", n.log())
		}
		contains(t, "the log", n.log(), "commits wait for a synchronous standby, and none is connected")
	}
	code, out := impartCommand(t, []string{"IM_STORE=" + p.primary.DSN("im"), "IM_REPLICATION=sync"}, "doctor")
	if code != 1 || !strings.Contains(out, "commits wait for a synchronous standby, and none is connected") || strings.Contains(out, "half open") {
		t.Errorf("the doctor ends with %d:\n%s", code, out)
	}
	if err := p.standby.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, who := range p.people {
		who.settle()
	}
	eventually(t, "readiness without a warning", func() bool { return get(t, p.nodes[0].url+"/readyz") == "ready\n" })
	p.agree()
}

func TestAPromotedStandbyThatWaitsForStandbysOfItsOwnSaysSo(t *testing.T) {
	t.Parallel()
	p := newPair(t, true, "IM_REPLICATION=sync")
	p.people[0].say("before")
	p.people[0].settle()
	p.haveBeaten()
	if err := p.standby.Set(t.Context(), map[string]string{"synchronous_standby_names": "FIRST 1 (elsewhere)"}); err != nil {
		t.Fatal(err)
	}
	p.crash()
	p.says("not ready", "fail: history", "the judgement itself cannot be written: commits wait for a synchronous standby, and none is connected",
		"ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf()")
	code, out := impartCommand(t, []string{"IM_STORE=" + p.standby.DSN("im"), "IM_REPLICATION=sync"}, "doctor")
	if code != 1 || !strings.Contains(out, "NOT able") || !strings.Contains(out, "commits wait for a synchronous standby") {
		t.Errorf("the doctor ends with %d:\n%s", code, out)
	}
	if err := p.standby.Set(t.Context(), map[string]string{"synchronous_standby_names": ""}); err != nil {
		t.Fatal(err)
	}
	p.judged()
	p.people[1].say("after")
	for _, who := range p.people {
		who.settle()
	}
	p.agree()
}

func TestAClockThatWasReadSlowlyTellsNothing(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	for _, c := range []struct {
		ahead, took, offset time.Duration
		told                bool
	}{
		{0, 0, 0, true},
		{20 * time.Millisecond, 60 * time.Millisecond, 0, true}, // within what can be told
		{3 * time.Second, 60 * time.Millisecond, 3 * time.Second, true},
		{-3 * time.Second, 60 * time.Millisecond, -3 * time.Second, true},
		{12 * time.Second, 20 * time.Second, 0, false},
		{12 * time.Second, 1001 * time.Millisecond, 0, false},
	} {
		v := store.Vitals{Now: 1_800_000_000_000, Asked: now.Add(c.ahead), Took: c.took}
		if offset, told := clockOffset(&v); offset != c.offset || told != c.told {
			t.Errorf("%v ahead, read in %v: %v, %v, want %v, %v", c.ahead, c.took, offset, told, c.offset, c.told)
		}
	}
	if _, told := clockOffset(&store.Vitals{}); told {
		t.Error("a store without a clock is told to be right")
	}
}

func TestReadinessOfAStoreWhoseCommitsWait(t *testing.T) {
	p := &parts{store: sickStore{failing: true}}
	p.standby.Store(&store.Standby{Names: "ANY 1 (a,b)", Connected: 1, Waiting: 3, Longest: 5 * time.Second})
	got := p.storeCheck(t.Context())
	if got.State != api.Warn || !strings.Contains(got.Detail, "a synchronous standby that does not answer") || strings.Contains(got.Detail, "disk") {
		t.Errorf("%+v", got)
	}
	p.standby.Store(&store.Standby{Names: "ANY 1 (a,b)", Connected: 1})
	if got := p.storeCheck(t.Context()); strings.Contains(got.Detail, "standby") {
		t.Errorf("%+v", got)
	}
}

func TestTheDoctorSaysWhatAStartAndAFailoverWillMean(t *testing.T) {
	if got := startAdvice(context.DeadlineExceeded); !strings.Contains(got, "would wait for it, 60 s at most") {
		t.Errorf("of a database that does not answer: %s", got)
	}
	if got := startAdvice(errors.New("no such role")); got != "a server would not start" {
		t.Errorf("of one that refuses: %s", got)
	}
	names := []store.Setting{{Name: "synchronous_standby_names", Value: "ANY 1 (a,b)"}}
	none := []store.Setting{{Name: "synchronous_standby_names", Value: "none"}}
	for _, c := range []struct {
		settings    []store.Setting
		replication string
		standbys    int
		want        verdict
	}{
		{names, "sync", 2, good}, {names, "none", 2, good}, {none, "sync", 1, warn}, {none, "none", 1, warn}, {none, "none", -1, warn}, {none, "none", 0, good},
	} {
		if got := failoverFinding(c.settings, c.replication, c.standbys); got.Verdict != c.want {
			t.Errorf("%+v: %+v, want %s", c, got, c.want)
		}
	}
	for connected, want := range []verdict{fail, warn, good} {
		if got := standbyFindings(&store.Standby{Names: "ANY 1 (a,b)", Connected: connected}); len(got) != 1 || got[0].Verdict != want {
			t.Errorf("%d standbys: %+v, want %s", connected, got, want)
		}
	}
	if got := standbyFindings(&store.Standby{}); got != nil {
		t.Errorf("where no commit waits: %+v", got)
	}
}
