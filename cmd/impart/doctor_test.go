package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/internal/store"
)

func TestTheDoctorJudges(t *testing.T) {
	now := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	cases := map[string]struct {
		got  finding
		want verdict
	}{
		"a local disk":              {kindFinding("ext4"), good},
		"memory":                    {kindFinding("tmpfs"), fail},
		"a network":                 {kindFinding("nfs"), fail},
		"a container's layer":       {kindFinding("overlay"), warn},
		"much room":                 {roomFinding(100 << 30), good},
		"little room":               {roomFinding(500 << 20), warn},
		"no room":                   {roomFinding(10 << 20), fail},
		"a clock that is kept":      {clockFinding(now, clockKept), good},
		"a clock that runs free":    {clockFinding(now, clockFree), warn},
		"a clock nobody knows of":   {clockFinding(now, clockUnknown), good},
		"a clock that was reset":    {clockFinding(time.Unix(0, 0), clockKept), fail},
		"a folder":                  {writable(t.TempDir()), good},
		"no folder":                 {writable(filepath.Join(t.TempDir(), "none")), fail},
		"more connections than fds": {fileLimit(1 << 30), fail},
		"the schema it knows":       {schemaFinding(3, 3), good},
		"an older schema":           {schemaFinding(2, 3), warn},
		"a newer schema":            {schemaFinding(4, 3), fail},
		"an unsafe setting":         {settingFindings([]store.Setting{{Name: "synchronous", Value: "1", Want: "2"}})[0], fail},
		"a safe setting":            {settingFindings([]store.Setting{{Name: "synchronous", Value: "2", Safe: true}})[0], good},
		"an error":                  {judge("x", "", errors.New("broken"), "mend it"), fail},
	}
	for name, c := range cases {
		if c.got.Verdict != c.want {
			t.Errorf("%s is %s, want %s: %+v", name, c.got.Verdict, c.want, c.got)
		}
		if c.got.Verdict == fail && c.got.Advice == "" {
			t.Errorf("%s fails without advice", name)
		}
	}
}

func TestTheDoctorCountsConnectionsAsAServerDoes(t *testing.T) {
	conns, _, err := connectionLimits(0)
	if err != nil {
		t.Fatal(err)
	}
	if got := fileLimit(0).Found; !strings.HasSuffix(got, fmt.Sprintf("at most %d connections", conns)) {
		t.Errorf("a server takes %d; the doctor says %q", conns, got)
	}
	if got := fileLimit(conns).Verdict; got == fail {
		t.Errorf("%d connections are what a server takes, and %s", conns, got)
	}
	if got := fileLimit(conns + 1).Verdict; got != fail {
		t.Errorf("%d connections are refused by a server, and %s", conns+1, got)
	}
}

func TestOneFailMeansNotAble(t *testing.T) {
	if !diagnose([]finding{{Verdict: good}, {Verdict: warn}}).Able {
		t.Error("a warning alone means not able")
	}
	if diagnose([]finding{{Verdict: good}, {Verdict: fail}, {Verdict: good}}).Able {
		t.Error("a fail means able")
	}
}

func TestLookingLeavesNothingBehind(t *testing.T) {
	folder := t.TempDir()
	l := world{map[string]string{"IM_STORE": "sqlite:" + filepath.Join(folder, "a", "b", "impart.db")}}.mustRead(t)
	d := examine(context.Background(), l)
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	var seen []string
	for _, f := range d.Findings {
		seen = append(seen, f.Check)
	}
	for _, want := range []string{"version", "settings", "clock", "folder", "descriptors", "store"} {
		if !strings.Contains(strings.Join(seen, " "), want) {
			t.Errorf("no check of %s in %q", want, seen)
		}
	}
}
