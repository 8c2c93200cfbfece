package campaign

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// Kind is how a plan is run.
type Kind string

// The kinds of runs.
const (
	Simulated Kind = "simulated" // in virtual time
	Processed Kind = "processes"
)

// Entry is one run in a ledger: a line of JSON.
type Entry struct {
	Version  string   `json:"version"` // of what was run; a tree with changes is another one each time
	Kind     Kind     `json:"kind"`
	Seed     uint64   `json:"seed"`
	Steps    int      `json:"steps"`
	MS       int64    `json:"ms"`
	Findings []string `json:"findings"`
	Error    string   `json:"error,omitzero"` // the run could not be carried out
}

// Clean reports whether the run was carried out and found nothing.
func (e *Entry) Clean() bool { return e.Error == "" && len(e.Findings) == 0 }

// NewEntry is what a run has shown, for a ledger.
func NewEntry(version string, kind Kind, steps int, took time.Duration, r Result, err error) Entry {
	e := Entry{Version: version, Kind: kind, Seed: r.Seed, Steps: steps, MS: took.Milliseconds(), Findings: []string{}}
	for _, f := range r.Findings {
		e.Findings = append(e.Findings, f.String())
	}
	if err != nil {
		e.Error = err.Error()
	}
	return e
}

// Ledger is a file of runs, which a campaign that was interrupted goes on from.
// Each run is a line, written at once; the last line of one that was killed may
// be torn and does not count.
type Ledger struct {
	mu   sync.Mutex // guards what follows
	file *os.File
	done map[uint64]Entry
}

// OpenLedger opens or makes a ledger. What it holds of this version, kind and
// length is done already.
func OpenLedger(path, version string, kind Kind, steps int) (*Ledger, error) {
	l := &Ledger{done: map[uint64]Entry{}}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the ledger: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var e Entry
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Version == version && e.Kind == kind && e.Steps == steps && e.Error == "" {
			l.done[e.Seed] = e
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("the ledger: %w", err)
	}
	if l.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("the ledger: %w", err)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		_, err = l.file.WriteString("\n") // behind a line that was torn
	}
	return l, err
}

// Done is the run of a seed that the ledger holds.
func (l *Ledger) Done(seed uint64) (Entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, done := l.done[seed]
	return e, done
}

// Add writes one run.
func (l *Ledger) Add(e Entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.file.Write(append(text, '\n'))
	l.done[e.Seed] = e
	return err
}

// Close closes the file.
func (l *Ledger) Close() error { return l.file.Close() }
