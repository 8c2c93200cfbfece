package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Verdict is what is made of a check.
type Verdict string

// The verdicts. NotRun has a reason and is never a kind of Pass.
const (
	Pass   Verdict = "PASS"
	Fail   Verdict = "FAIL"
	NotRun Verdict = "NOT_RUN"
)

// Result is one run of the lab, as evidence/RUN/result.json holds it.
type Result struct {
	Run     string        `json:"run"`
	Version string        `json:"version"`
	Store   string        `json:"store"`
	Shape   Shape         `json:"shape"`
	Checks  []CheckResult `json:"checks"`
}

// CheckResult is the outcome of one check.
type CheckResult struct {
	ID        string  `json:"id"`
	Invariant string  `json:"invariant"`
	What      string  `json:"what"`
	Expect    string  `json:"expect"`
	Observed  string  `json:"observed"` // in the honest run
	Verdict   Verdict `json:"verdict"`
	MS        int64   `json:"ms"`  // of the honest run and the twins together
	Why       string  `json:"why"` // "" for PASS
	// Bit counts what broke in the honest run, by what it was.
	Bit []Bite `json:"bit"`
	// Figures are what the honest run measured. They are not judged.
	Figures []Figure     `json:"figures,omitempty"`
	Twins   []TwinResult `json:"twins"`
}

// Figure is something that was measured.
type Figure struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Bite counts one way in which something broke, so that a run in which nothing
// did cannot pass.
type Bite struct {
	What  string `json:"what"`
	Times int    `json:"times"`
}

// TwinResult is the outcome of the same check with a guard switched off.
type TwinResult struct {
	Sabotage string   `json:"sabotage"`
	What     string   `json:"what"`
	Caught   bool     `json:"caught"` // the check reported a violation
	Observed string   `json:"observed"`
	Violated []string `json:"violated"`
	MS       int64    `json:"ms"`
	Why      string   `json:"why"` // why it is not caught; "" if it is
}

// Count gives how many checks have a verdict.
func (r *Result) Count(v Verdict) (n int) {
	for i := range r.Checks {
		if r.Checks[i].Verdict == v {
			n++
		}
	}
	return n
}

// resultName is the file of a [Result] in its folder.
const resultName = "result.json"

// write stores the result in dir.
func (r *Result) write(dir string) error {
	text, err := json.Marshal(r, jsontext.WithIndent("  "), json.FormatNilSliceAsNull(false))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, resultName), append(text, '\n'), 0o644)
}

// ReadResult reads the result of the run whose evidence is in dir.
func ReadResult(dir string) (*Result, error) {
	text, err := os.ReadFile(filepath.Join(dir, resultName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s holds no run of the lab: impart lab run makes one", dir)
	} else if err != nil {
		return nil, err
	}
	r := new(Result)
	if err := json.Unmarshal(bytes.TrimSpace(text), r); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, resultName), err)
	}
	return r, nil
}
