package lab

import (
	"bytes"
	"io"
	"os"
	"time"

	"github.com/impart-im/impart/internal/lab/process"
)

// strikeBegin is how a line of a log begins that tells of a fault.
const strikeBegin = "fault struck "

// strikesEvery is how often a log is read: so late may a strike be on the timeline.
const strikesEvery = 10 * time.Millisecond

// tellStrikes puts the faults that strike a process on the timeline, from its log,
// until it has ended, and then closes told.
func (s *Server) tellStrikes(log string, p *process.Process, told chan<- struct{}) {
	defer close(told)
	file, err := os.Open(log)
	if err != nil {
		return // the log is what the strikes are counted from: that will say so
	}
	defer file.Close()
	var begun []byte // of a line
	tell := func() {
		fresh, _ := io.ReadAll(file)
		begun = strikes(append(begun, fresh...), func(strike string) { s.b.Note(s.name, "struck", "%s", strike) })
	}
	tick := time.NewTicker(strikesEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			tell()
		case <-p.Done():
			tell()
			return
		}
	}
}

// strikes tells of each strike in the whole lines of text, and gives what is left.
func strikes(text []byte, tell func(strike string)) (begun []byte) {
	for {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			return text
		}
		text = rest
		if strike, ok := bytes.CutPrefix(line, []byte(strikeBegin)); ok {
			tell(string(strike))
		}
	}
}
