package main

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/impart-im/impart/internal/bench"
)

// TestModelOnPostgresCountsWhatTheDatabaseWrites: the costs are the database's own
// figures, which a send and an ack of the schema fix exactly.
func TestModelOnPostgresCountsWhatTheDatabaseWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: needs PostgreSQL")
	}
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cmd := exec.CommandContext(t.Context(), exe, "bench", "model", "--store", "postgres", "--dir", folder, "--json",
		"--senders", "4", "--connected", "24", "--at", "0.2", "--duration", "500ms")
	cmd.Args[0] = "impart"
	cmd.Env = []string{endAtOnce, "HOME=" + t.TempDir(), "TMPDIR=" + os.TempDir(), "PATH=" + os.Getenv("PATH")}
	out, failed := cmd.Output()
	var report bench.Report
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v, %v\n%s", failed, err, out)
	}
	for _, check := range report.Checks {
		// How fast a machine is that runs other tests too is not what this is about.
		if !check.OK && check.Name != "the rate was held" {
			t.Errorf("%s: %s", check.Name, check.Detail)
		}
	}
	if report.Model == nil {
		t.Fatalf("%v\n%s", failed, out)
	}
	c := report.Model.Costs
	// An event, its dedup row and the head, which messages of one conversation share
	// when they share a transaction; a cursor.
	if c.Send.Rows < 2 || c.Send.Rows > 3.1 || math.Abs(c.Ack.Rows-1) > 0.1 {
		t.Errorf("a send writes %.2f rows and an ack %.2f", c.Send.Rows, c.Ack.Rows)
	}
	if !c.Apart || c.Mix.Logic <= 0 || c.Mix.Logic >= c.Mix.Server {
		t.Errorf("the roles' shares are not told apart: %+v", c.Mix)
	}
	if c.InStore || c.Send.Database <= 0 || c.Send.Log < float64(c.Body) || c.Disk < float64(c.Body) {
		t.Errorf("the database's share is not counted: %+v", c)
	}
	if n := report.Model.Needs[0]; n.DBCores <= 0 || n.Primaries < 1 {
		t.Errorf("the load needs no database: %+v", n)
	}
	nothingLeft(t, folder)
}

const (
	exampleBegin = "<!-- model:begin (written by `make docs`; a test computes it anew) -->\n"
	exampleEnd   = "<!-- model:end -->"
)

// TestCapacityExample: the example of docs/capacity.md is what the command says of
// the costs that were measured.
func TestCapacityExample(t *testing.T) {
	report, err := readModel(filepath.Join("testdata", "model", "costs.json"), bench.Assumptions{})
	if err != nil {
		t.Fatal(err)
	}
	report.Notes = nil // the name of the file
	var out strings.Builder
	if err := report.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	_, figures, _ := strings.Cut(out.String(), "\n\n")
	example := "```text\n" + strings.TrimSpace(figures) + "\n```\n"
	name := filepath.Join("..", "..", "docs", "capacity.md")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), exampleBegin)
	told, after, ends := strings.Cut(rest, exampleEnd)
	if !begins || !ends {
		t.Fatalf("%s has lost the marks around its example", name)
	}
	if *update {
		if err := os.WriteFile(name, []byte(before+exampleBegin+example+exampleEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if told != example {
		t.Errorf("%s has another example than the command: make docs", name)
	}
}

// A model from the costs of a run that failed ends as that run did.
func TestModelFromCostsThatFailed(t *testing.T) {
	folder := t.TempDir()
	for name, ok := range map[string]bool{"failed.json": false, "good.json": true} {
		costs := bench.Costs{Send: bench.Cost{Count: 1, Server: 1e-5}, Mix: bench.Cost{Count: 1, Server: 1e-5}}
		text, err := json.Marshal(bench.Report{Bench: "model", Model: &bench.Model{Costs: costs}, Checks: []bench.Check{{Name: "the rate was held", OK: ok}}})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := readModel(file, bench.Assumptions{Multiples: []float64{1}})
		if err != nil {
			t.Fatal(err)
		}
		if err := standing(report); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
