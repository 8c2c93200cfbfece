package report

import (
	_ "embed"
	"html/template"
	"os"
	"path/filepath"
	"slices"

	"github.com/impart-im/impart/internal/lab"
)

//go:embed timeline.html
var pageText string

var page = template.Must(template.New("timeline").Parse(pageText))

// PageName is the file of the timeline in the folder of a run.
const PageName = "timeline.html"

// Write makes the HTML page of the run whose evidence is in dir, and gives its path.
func Write(dir string) (string, error) {
	r, err := lab.ReadResult(dir)
	if err != nil {
		return "", err
	}
	v, err := newView(dir, r)
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, PageName)
	f, err := os.Create(name)
	if err != nil {
		return "", err
	}
	if err := page.Execute(f, v); err != nil {
		_ = f.Close() // the first error is the one to tell
		return "", err
	}
	return name, f.Close()
}

// view is what the page shows.
type view struct {
	*lab.Result
	Pass, Fail, NotRun int
	Rows               []row
}

type row struct {
	*lab.CheckResult
	Runs []runView
}

// runView is one run of a check: its lanes and, below them, its moments.
type runView struct {
	Name, Note, Observed string
	Twin                 bool
	Guard                string // of a twin: what is off
	// Word is what is made of this run alone: held or failed, of a twin caught or not
	// caught, or not run. Kind is its colour, Why the reason if it is not as it should be.
	Word, Kind, Why string
	Violated        []string
	Lanes           []lane
	Moments         []lab.Moment
	Left            int // moments that are only in the file
	Seconds         float64
	Logs            []string // names under the folder of the run
}

// lane is what one process or client did, as dots along the time.
type lane struct {
	Who  string
	Dots []dot
}

type dot struct {
	X    float64 // of 1000
	Kind string
	Text string
}

// Bounds of what the page holds of one run; the rest is in the file.
const (
	maxShown = 300 // moments of one kind
	maxTitle = 80  // characters that a dot tells
)

func newView(dir string, r *lab.Result) (*view, error) {
	v := &view{Result: r, Pass: r.Count(lab.Pass), Fail: r.Count(lab.Fail), NotRun: r.Count(lab.NotRun)}
	for i := range r.Checks {
		c := &r.Checks[i]
		out := row{CheckResult: c}
		honest, err := newRunView(dir, c.ID, "")
		if err != nil {
			return nil, err
		}
		honest.Name, honest.Observed = "honest", c.Observed
		honest.Word, honest.Kind, honest.Why = honestVerdict(c)
		out.Runs = append(out.Runs, *honest)
		for _, t := range c.Twins {
			twin, err := newRunView(dir, c.ID, t.Sabotage)
			if err != nil {
				return nil, err
			}
			twin.Name, twin.Guard, twin.Note, twin.Twin = "twin "+t.Sabotage, t.Sabotage, t.What, true
			twin.Observed, twin.Violated = t.Observed, t.Violated
			twin.Word, twin.Kind, twin.Why = twinVerdict(c, t)
			out.Runs = append(out.Runs, *twin)
		}
		v.Rows = append(v.Rows, out)
	}
	return v, nil
}

// honestVerdict is what is made of the honest run alone: a check may also fail by
// its twins, which run only when nothing was violated.
func honestVerdict(c *lab.CheckResult) (word, kind, why string) {
	bit := len(c.Bit) > 0 && !slices.ContainsFunc(c.Bit, func(b lab.Bite) bool { return b.Times <= 0 })
	switch {
	case c.Verdict == lab.Pass, len(c.Twins) > 0 && bit:
		return "held", "PASS", ""
	case c.Verdict == lab.NotRun:
		return "not run", "NOT_RUN", c.Why
	}
	return "failed", "FAIL", c.Why
}

func twinVerdict(c *lab.CheckResult, t lab.TwinResult) (word, kind, why string) {
	switch {
	case t.Caught:
		return "caught", "caught", ""
	case c.Verdict == lab.NotRun:
		return "not run", "NOT_RUN", t.Why
	}
	return "not caught", "FAIL", t.Why
}

func newRunView(dir, check, sabotage string) (*runView, error) {
	folder := lab.Folder(dir, check, sabotage)
	moments, err := lab.ReadMoments(folder)
	if err != nil {
		return nil, err
	}
	v := &runView{}
	logs, err := filepath.Glob(filepath.Join(folder, "*.log"))
	if err != nil {
		return nil, err
	}
	for _, name := range logs {
		if rel, err := filepath.Rel(dir, name); err == nil {
			v.Logs = append(v.Logs, filepath.ToSlash(rel))
		}
	}
	if len(moments) == 0 {
		return v, nil
	}
	slices.SortStableFunc(moments, func(a, b lab.Moment) int { return int(a.MS - b.MS) })
	end := max(moments[len(moments)-1].MS, 1)
	v.Seconds = float64(end) / 1000
	shown := choose(moments)
	v.Left = len(moments) - len(shown)
	v.Moments = shown
	places := map[string]int{}
	for _, m := range shown {
		at, known := places[m.Who]
		if !known {
			at = len(v.Lanes)
			places[m.Who] = at
			v.Lanes = append(v.Lanes, lane{Who: m.Who})
		}
		v.Lanes[at].Dots = append(v.Lanes[at].Dots, dot{1000 * float64(m.MS) / float64(end), kind(m.What), title(m)})
	}
	return v, nil
}

// choose leaves out what is in the middle of a long run, of each kind apart: what
// seldom happens is all shown.
func choose(moments []lab.Moment) (shown []lab.Moment) {
	all, nth := map[string]int{}, map[string]int{}
	for _, m := range moments {
		all[group(m)]++
	}
	for _, m := range moments {
		g := group(m)
		if nth[g]++; nth[g] > maxShown/2 && nth[g] <= all[g]-maxShown/2 {
			continue
		}
		shown = append(shown, m)
	}
	return shown
}

// group is what is thinned out together: strikes may come by the thousand, and
// hide no kill.
func group(m lab.Moment) string {
	if m.What == "struck" {
		return m.What
	}
	return kind(m.What)
}

func title(m lab.Moment) string {
	text := []rune(m.What + " " + m.Text)
	return string(text[:min(len(text), maxTitle)])
}

// kind is the colour of a moment.
func kind(what string) string {
	switch what {
	case "killed", "ended", "paused", "failed", "lost", "cut", "faults", "violated", "error", "bye", "set", "waiting",
		"struck", "shaped", "refusing", "refused", "unreached":
		return "bad"
	case "started", "resumed", "welcome", "subbed", "mounted", "online", "healed":
		return "up"
	case "sent", "answered", "acked", "event", "synced", "pulled", "handled", "settled":
		return "done"
	case "hint", "overflow":
		return "hint"
	}
	return "act"
}
