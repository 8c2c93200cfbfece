package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"
)

//go:embed report.html
var page string

// pageTemplate needs nothing from elsewhere: no script, no font, no picture.
var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"when":    func(t time.Time) string { return t.Format("2006-01-02 15:04:05 -07:00") },
	"verdict": verdict,
	"number":  number,
	"figure":  withUnit,
	"ms":      millis,
	"plots":   plots,
}).Parse(page))

// WriteHTML writes the report as one page that stands by itself.
func (r *Report) WriteHTML(w io.Writer) error { return pageTemplate.Execute(w, r) }

// plots are the pictures of a run. Their text is escaped where they are drawn.
func plots(r Run) (pictures []template.HTML) {
	add := func(svg string) {
		if svg != "" {
			pictures = append(pictures, template.HTML(svg))
		}
	}
	add(plotCourse(r.PointsOf, r.Points, []curve{{"rate", func(p Point) float64 { return p.Rate }}}, number))
	add(plotCourse("latency of each second: p50 below, p99 above", r.Points, []curve{
		{"p50", func(p Point) float64 { return p.P50 }},
		{"p99", func(p Point) float64 { return p.P99 }},
	}, millis))
	add(plotCurve(r.Latency))
	return pictures
}

// Facts are the machine as pairs of name and value; what is not known is left out.
func (m Machine) Facts() (facts [][2]string) {
	add := func(name, format string, args ...any) {
		facts = append(facts, [2]string{name, fmt.Sprintf(format, args...)})
	}
	if m.CPU != "" {
		add("processor", "%s", m.CPU)
	}
	add("cores", "%d", m.Cores)
	if m.Memory > 0 {
		add("memory", "%.1f GiB", float64(m.Memory)/(1<<30))
	}
	add("system", "%s", m.System)
	add("Go", "%s", m.Go)
	if m.Disk != "" {
		add("disk", "%s", m.Disk)
	}
	if m.Fsync != nil {
		add("flush of 4 KiB", "p50 %s, p99 %s", millis(m.Fsync.P50), millis(m.Fsync.P99))
	}
	if m.Load >= 0 {
		add("load at the start", "%.2f", m.Load)
	}
	return facts
}
