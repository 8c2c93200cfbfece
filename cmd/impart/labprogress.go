package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/impart-im/impart/internal/lab"
)

// labProgress shows what the lab does: one line that changes on a terminal, and
// one line for each check that is done.
type labProgress struct {
	w     io.Writer
	live  bool // a terminal, whose last line may change
	shown bool // that line is there
}

func newLabProgress(env streams, w io.Writer) *labProgress {
	_, dumb := env.env("NO_COLOR")
	under := w
	if pipe, ok := w.(watched); ok {
		under = pipe.Writer
	}
	file, isFile := under.(*os.File)
	return &labProgress{w: w, live: isFile && isatty.IsTerminal(file.Fd()) && !dumb}
}

// say shows what is going on now, on a terminal only.
func (p *labProgress) say(text string) {
	if p.live {
		fmt.Fprintf(p.w, "\r\x1b[2K%s", text)
		p.shown = true
	}
}

// end takes the changing line away.
func (p *labProgress) end() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[2K")
		p.shown = false
	}
}

func (p *labProgress) step(s lab.Step) {
	if s.Result == nil {
		p.say(fmt.Sprintf("[%d/%d] %s: %s …", s.Index, s.Of, s.Check.ID, s.Run))
		return
	}
	p.end()
	r := s.Result
	verdict := string(r.Verdict)
	if p.live {
		colour := map[lab.Verdict]int{lab.Pass: 32, lab.Fail: 31, lab.NotRun: 33}[r.Verdict]
		verdict = fmt.Sprintf("\x1b[%dm%s\x1b[0m", colour, verdict)
	}
	text := r.Observed
	if r.Why != "" {
		text = r.Why
	}
	took := (time.Duration(r.MS) * time.Millisecond).Round(100 * time.Millisecond)
	fmt.Fprintf(p.w, "[%d/%d] %s %s (%v): %s\n", s.Index, s.Of, verdict, r.ID, took, oneLine(text))
}
