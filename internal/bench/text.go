package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes the report for people, as lines of text.
func (r *Report) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.line("impart bench %s: %s", r.Bench, r.Server)
	p.line("%s", r.Machine)
	if r.Stopped {
		p.line("Interrupted: what follows was measured until then.")
	}
	for i := range r.Runs {
		p.run(&r.Runs[i])
	}
	if len(r.Ratios) > 0 {
		p.line("")
		p.line("ratios, within this run")
		p.table(func(t io.Writer) {
			for _, q := range r.Ratios {
				fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", number(q.Value), q.Name, q.Aim(), q.Why)
			}
		})
	}
	if r.Model != nil {
		p.model(r.Model)
	}
	p.line("")
	p.line("checked")
	p.table(func(t io.Writer) {
		for _, c := range r.Checks {
			fmt.Fprintf(t, "  %s\t%s\t%s\n", verdict(c.OK), c.Name, c.Detail)
		}
	})
	for _, note := range r.Notes {
		p.line("note: %s", note)
	}
	if r.Stopped {
		p.line("")
		p.line("Interrupted: this was not the whole run, and it ends with 1.")
	}
	return p.err
}

func verdict(ok bool) string {
	if ok {
		return "ok"
	}
	return "FAILED"
}

// Aim says what a ratio should be, and whether it is.
func (r Ratio) Aim() string {
	met, told := r.Met()
	if !told {
		return ""
	}
	word := "at least"
	if r.AtMost {
		word = "at most"
	}
	text := word + " " + number(r.Reach)
	if !met {
		text += ": not reached"
		if r.Others >= busyShare {
			text += fmt.Sprintf("; the machine was busy: other processes took %.0f %% of a core", r.Others)
		}
	}
	return text
}

// String is the machine in one line.
func (m Machine) String() string {
	var parts []string
	for _, fact := range m.Facts() {
		parts = append(parts, fact[0]+" "+fact[1])
	}
	return strings.Join(parts, "; ")
}

// printer keeps the first error of a writer.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) table(rows func(io.Writer)) {
	if p.err != nil {
		return
	}
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	rows(t)
	p.err = t.Flush()
}

func (p *printer) run(r *Run) {
	p.line("")
	head := r.Name
	if r.Seconds > 0 {
		head += fmt.Sprintf(" (%s)", time.Duration(r.Seconds*float64(time.Second)).Round(10*time.Millisecond))
	}
	p.line("%s", head)
	if r.Loop != "" {
		p.line("  %s", r.Loop)
	}
	p.table(func(t io.Writer) {
		for _, f := range r.Figures {
			fmt.Fprintf(t, "  %s\t%s\n", f.Name, withUnit(f))
		}
	})
	if l := r.Latency; l != nil {
		p.line("  %s: %s", r.Of, l)
	}
}

// String is the distribution in one line. A percentile that so few values cannot
// tell is left out: it would be the longest over again.
func (l *Latency) String() string {
	parts := []string{"p50 " + millis(l.P50), "p90 " + millis(l.P90)}
	if l.Tells(99) {
		parts = append(parts, "p99 "+millis(l.P99))
	}
	if l.Tells(99.9) {
		parts = append(parts, "p99.9 "+millis(l.P999))
	}
	return fmt.Sprintf("%s, longest %s (%d)", strings.Join(parts, ", "), millis(l.Max), l.Count)
}

func withUnit(f Figure) string {
	switch {
	case f.Unit == "":
		return number(f.Value)
	case f.Unit == "ms":
		return millis(f.Value)
	case strings.HasPrefix(f.Unit, "/"):
		return number(f.Value) + f.Unit
	}
	return number(f.Value) + " " + f.Unit
}

// millis is a time in milliseconds with three figures that count.
func millis(ms float64) string {
	switch {
	case ms < 1:
		return fmt.Sprintf("%.0f µs", ms*1000)
	case ms < 1000:
		return strconv.FormatFloat(ms, 'g', 3, 64) + " ms"
	}
	return fmt.Sprintf("%.2f s", ms/1000)
}

// number is a value with as many figures as mean something, and commas between
// the thousands.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0:
		return "-" + number(-v)
	case v == math.Trunc(v) && v < 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
