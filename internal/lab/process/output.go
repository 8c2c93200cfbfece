package process

import (
	"bytes"
	"regexp"
	"sync"
)

// outputMax bounds what is kept of a standard output.
const outputMax = 64 << 10

var readyLine = regexp.MustCompile(`(?m)^ready http://(\S+)\n`)

// output takes a process's standard output and tells of its ready line once.
type output struct {
	ready chan string // gets the address

	mu   sync.Mutex // guards what follows
	kept []byte
	told bool
}

func newOutput() *output { return &output{ready: make(chan string, 1)} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, b[:min(len(b), outputMax-len(o.kept))]...)
	if found := readyLine.FindSubmatch(o.kept); found != nil && !o.told {
		o.told = true
		o.ready <- string(found[1])
	}
	return len(b), nil
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(bytes.TrimSpace(o.kept))
}
