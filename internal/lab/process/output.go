package process

import (
	"bytes"
	"regexp"
	"sync"
)

// outputMax bounds what is kept of a standard output.
const outputMax = 64 << 10

// readyLine has the address, and of a logic node the one for gateways after it.
var readyLine = regexp.MustCompile(`(?m)^ready http://(\S+)(?: grpc://(\S+))?\n`)

// output takes a process's standard output and tells of its ready line once.
type output struct {
	ready chan [2]string // gets the addresses

	mu   sync.Mutex // guards what follows
	kept []byte
	told bool
}

func newOutput() *output { return &output{ready: make(chan [2]string, 1)} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, b[:min(len(b), outputMax-len(o.kept))]...)
	if found := readyLine.FindSubmatch(o.kept); found != nil && !o.told {
		o.told = true
		o.ready <- [2]string{string(found[1]), string(found[2])}
	}
	return len(b), nil
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(bytes.TrimSpace(o.kept))
}
