package lab

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// Moment is something that happened in a run of a check.
type Moment struct {
	MS   int64  `json:"ms"`   // since the run began
	Who  string `json:"who"`  // the process or client: "server", "ana"
	What string `json:"what"` // one word: started, killed, sent, acked, hint …
	Text string `json:"text,omitempty"`
}

// judgeName is who finds violations.
const judgeName = "judge"

// timelineName is the file of moments in the folder of a run of a check.
const timelineName = "timeline.jsonl"

// maxMoments bounds the file, of each word apart: a load is not told in full, and
// hides no kill or power cut that comes after it.
const maxMoments = 4_000

// timeline writes down what happens, as it happens.
type timeline struct {
	began time.Time

	mu    sync.Mutex // guards what follows
	file  *os.File
	out   *bufio.Writer
	count map[string]int // of each word
	over  bool           // the check has ended: what is torn down is no part of its story
	err   error
}

func newTimeline(dir string) (*timeline, error) {
	f, err := os.Create(filepath.Join(dir, timelineName))
	if err != nil {
		return nil, err
	}
	return &timeline{began: time.Now(), file: f, out: bufio.NewWriter(f), count: map[string]int{}}, nil
}

func (t *timeline) add(who, what, text string) {
	m := Moment{MS: time.Since(t.began).Milliseconds(), Who: who, What: what, Text: text}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over && who != judgeName {
		return
	}
	if t.count[what]++; t.count[what] > maxMoments || t.err != nil {
		return
	}
	line, err := json.Marshal(m)
	if err == nil {
		_, err = t.out.Write(append(line, '\n'))
	}
	t.err = err
}

// end is called when the check has ended; only the judge is heard from then on.
func (t *timeline) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

func (t *timeline) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.err, t.out.Flush(), t.file.Close())
}

// ReadMoments reads what happened in the run of a check whose evidence is in
// dir; nothing if it was not written.
func ReadMoments(dir string) ([]Moment, error) {
	text, err := os.ReadFile(filepath.Join(dir, timelineName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var all []Moment
	for line := range bytes.Lines(text) {
		var m Moment
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// Folder is where, under the folder of a run, the evidence of a check is: of its
// honest run, or of the twin with this sabotage.
func Folder(dir, check, sabotage string) string {
	return filepath.Join(dir, check, Sabotage{Name: sabotage}.folder())
}
