package campaign

import (
	"bytes"
	"errors"
	"fmt"
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
	Clustered Kind = "nodes" // three on PostgreSQL
	Apart     Kind = "apart" // three gateways and three logic nodes on PostgreSQL and a Redis
	// OnMySQL follows the last two where the database is MariaDB.
	OnMySQL Kind = "-mysql"
)

// Entry is one run in a ledger: a line of JSON.
type Entry struct {
	Version  string   `json:"version"` // of what was run, and its fingerprint
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
	path, version string
	kind          Kind
	steps         int

	mu   sync.Mutex // guards what follows
	file *os.File
	done map[uint64]Entry
	read int // bytes of the file that were read
}

// OpenLedger opens or makes a ledger. What it holds of this version, kind and
// length is done already.
func OpenLedger(path, version string, kind Kind, steps int) (*Ledger, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("the ledger: %w", err)
	}
	l := &Ledger{path: path, version: version, kind: kind, steps: steps, done: map[uint64]Entry{}}
	var err error
	if l.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("the ledger: %w", err)
	}
	whole, err := l.load()
	if err == nil && !whole {
		_, err = l.file.WriteString("\n") // behind a line that was torn
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the ledger: %w", err), l.file.Close())
	}
	return l, nil
}

// load reads what the file has gained. whole: it ends with a line's end.
func (l *Ledger) load() (whole bool, err error) {
	_, whole, err = l.gained()
	return whole, err
}

// Gained are runs that somebody else has written since the ledger was last read.
func (l *Ledger) Gained() ([]Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries, _, err := l.gained()
	return entries, err
}

func (l *Ledger) gained() (entries []Entry, whole bool, err error) {
	text, err := os.ReadFile(l.path)
	if err != nil {
		return nil, false, err
	}
	fresh := text[l.read:]
	for {
		line, rest, found := bytes.Cut(fresh, []byte("\n"))
		if !found {
			return entries, len(fresh) == 0, nil
		}
		l.read += len(line) + 1
		fresh = rest
		var e Entry
		if json.Unmarshal(line, &e) == nil && e.Version == l.version && e.Kind == l.kind && e.Steps == l.steps {
			entries = append(entries, e)
			if e.Error == "" {
				l.done[e.Seed] = e
			}
		}
	}
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
