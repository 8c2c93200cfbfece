package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/impart-im/impart/internal/bench"
)

// lineEvery is how often progress is told where there is no terminal.
const lineEvery = 5 * time.Second

// showProgress tells on standard error how a bench gets on: bars on a terminal,
// a line now and then elsewhere. done ends it.
func showProgress(env streams, e *bench.Env) (done func()) {
	if isatty.IsTerminal(env.stderr.Fd()) {
		b := &benchBars{bars: mpb.New(mpb.WithOutput(env.stderr), mpb.WithWidth(30))}
		e.Progress = b.tell
		return b.end
	}
	e.Progress = (&benchLines{w: env.stderr}).tell
	return func() {}
}

// benchLines tells the first point of a window, and then one every few seconds.
type benchLines struct {
	w      io.Writer
	window string
	next   time.Duration
}

func (l *benchLines) tell(p bench.Progress) {
	if p.Window == l.window && p.Spent < l.next {
		return
	}
	if p.Window != l.window {
		l.window, l.next = p.Window, 0
	}
	l.next += lineEvery
	fmt.Fprintf(l.w, "%s: %s\n", p.Window, progressText(p))
}

// benchBars has a bar for each window.
type benchBars struct {
	bars   *mpb.Progress
	bar    *mpb.Bar
	line   *barLine // of bar
	window string
}

// barLine is the text after a bar, which is drawn from another goroutine.
type barLine struct {
	mu   sync.Mutex // guards text
	text string
}

func (l *barLine) set(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = text
}

func (l *barLine) draw(decor.Statistics) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return " " + l.text
}

func (b *benchBars) tell(p bench.Progress) {
	if p.Window != b.window {
		b.finish()
		b.window, b.line = p.Window, &barLine{}
		total := p.Of.Milliseconds()
		if total == 0 {
			total = time.Hour.Milliseconds() // no known end: it is completed when the next begins
		}
		b.bar = b.bars.AddBar(total,
			mpb.PrependDecorators(decor.Name(p.Window+" ")),
			mpb.AppendDecorators(decor.Any(b.line.draw)))
	}
	b.line.set(progressText(p))
	b.bar.SetCurrent(p.Spent.Milliseconds())
}

// finish completes the bar of the window that has ended.
func (b *benchBars) finish() {
	if b.bar != nil {
		b.bar.SetTotal(-1, true)
	}
}

func (b *benchBars) end() {
	b.finish()
	b.bars.Wait()
}

func progressText(p bench.Progress) string {
	text := p.Spent.Round(time.Second).String()
	if p.Of > 0 {
		text += " of " + p.Of.Round(time.Second).String()
	}
	text += fmt.Sprintf(", %d %s, %.0f/s", p.Done, p.Unit, p.Rate)
	if p.P99 > 0 {
		text += fmt.Sprintf(", p99 %s", p.P99.Round(10*time.Microsecond))
	}
	return text
}
