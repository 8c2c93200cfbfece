package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The size of a plot and of the margins for its axes, in pixels.
const (
	plotWidth, plotHeight   = 640, 260
	left, right, top, below = 64, 28, 16, 40
)

// axis maps values to one side of a plot.
type axis struct {
	low, high float64
	log       bool
	from, to  float64 // pixels
}

func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log10(max(v, a.low)), math.Log10(a.low), math.Log10(a.high)
	}
	if high == low {
		return a.from
	}
	return a.from + (v-low)/(high-low)*(a.to-a.from)
}

// linear is an axis from 0 to a round number above high.
func linear(high, from, to float64) axis {
	_, top := steps(high)
	return axis{low: 0, high: top, from: from, to: to}
}

// steps finds a round distance between marks that gives about five, and the mark
// at or above high.
func steps(high float64) (step, top float64) {
	if high <= 0 {
		return 1, 1
	}
	raw := high / 5
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	step = 10 * power
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*power >= raw {
			step = m * power
			break
		}
	}
	return step, math.Ceil(high/step-1e-9) * step
}

// logarithmic is an axis over the powers of ten that hold low..high.
func logarithmic(low, high, from, to float64) axis {
	low = math.Pow(10, math.Floor(math.Log10(max(low, 1e-3))))
	high = math.Pow(10, math.Ceil(math.Log10(max(high, 10*low))))
	return axis{low: low, high: high, log: true, from: from, to: to}
}

// marks are the values at which an axis is labelled.
func (a axis) marks() (values []float64) {
	if a.log {
		for v := a.low; v <= a.high*1.001; v *= 10 {
			values = append(values, v)
		}
		return values
	}
	step, _ := steps(a.high)
	for v := 0.0; v <= a.high*1.001; v += step {
		values = append(values, v)
	}
	return values
}

// drawing is an SVG picture that grows.
type drawing struct{ b strings.Builder }

func newDrawing(label string) *drawing {
	d := &drawing{}
	fmt.Fprintf(&d.b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s" xmlns="http://www.w3.org/2000/svg">`, plotWidth, plotHeight, html.EscapeString(label))
	return d
}

func (d *drawing) text(x, y float64, anchor, class, text string) {
	fmt.Fprintf(&d.b, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`, x, y, anchor, class, html.EscapeString(text))
}

// upright draws the marks of a vertical axis, with lines across the plot.
func (d *drawing) upright(a axis, label func(float64) string) {
	for _, v := range a.marks() {
		y := a.at(v)
		fmt.Fprintf(&d.b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" class="grid"/>`, left, y, plotWidth-right, y)
		d.text(left-6, y+4, "end", "mark", label(v))
	}
}

// line draws a curve through points.
func (d *drawing) line(class string, points [][2]float64) {
	var path strings.Builder
	for i, p := range points {
		word := "L"
		if i == 0 {
			word = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", word, p[0], p[1])
	}
	fmt.Fprintf(&d.b, `<path d="%s" class="%s"/>`, path.String(), class)
}

func (d *drawing) end() string {
	d.b.WriteString("</svg>")
	return d.b.String()
}

// curve is one value of the points of a run, and how its line looks.
type curve struct {
	class string
	of    func(Point) float64
}

// plotCourse draws values of a run's points over time; "" when there are too few
// for a line, or all are 0.
func plotCourse(label string, points []Point, lines []curve, mark func(float64) string) string {
	if len(points) < 2 {
		return ""
	}
	high := 0.0
	for _, p := range points {
		for _, c := range lines {
			high = max(high, c.of(p))
		}
	}
	if high == 0 {
		return ""
	}
	x := axis{low: 0, high: points[len(points)-1].At, from: left, to: plotWidth - right}
	y := linear(high, plotHeight-below, top)
	d := newDrawing(label)
	d.upright(y, mark)
	step, _ := steps(x.high)
	for v := 0.0; v <= x.high*1.001; v += step {
		d.text(x.at(v), plotHeight-below+18, "middle", "mark", number(v)+" s")
	}
	for _, c := range lines {
		var at [][2]float64
		for _, p := range points {
			at = append(at, [2]float64{x.at(p.At), y.at(c.of(p))})
		}
		d.line(c.class, at)
	}
	d.text(left, plotHeight-4, "start", "label", label)
	return d.end()
}

// plotCurve draws latencies over percentiles. Each nine more takes the same room,
// since it is the few slow ones that matter.
func plotCurve(l *Latency) string {
	if l == nil || len(l.Curve) < 2 {
		return ""
	}
	nines := func(percent float64) float64 { return -math.Log10(1 - min(percent, 99.9999)/100) }
	most := 1.0
	low, high := math.Inf(1), 0.0
	for _, q := range l.Curve {
		if q.Percent < 100 {
			most = max(most, nines(q.Percent))
		}
		low, high = min(low, q.Millis), max(high, q.Millis)
	}
	x := axis{low: 0, high: most, from: left, to: plotWidth - right}
	y := logarithmic(low, high, plotHeight-below, top)
	d := newDrawing("latency by percentile")
	d.upright(y, millis)
	for _, percent := range []float64{0, 50, 90, 99, 99.9, 99.99, 99.999} {
		if n := nines(percent); n <= most*1.001 {
			d.text(x.at(n), plotHeight-below+18, "middle", "mark", fmt.Sprintf("%g %%", percent))
		}
	}
	var at [][2]float64
	for _, q := range l.Curve {
		if q.Percent < 100 {
			at = append(at, [2]float64{x.at(nines(q.Percent)), y.at(q.Millis)})
		}
	}
	d.line("p99", at)
	d.text(left, plotHeight-4, "start", "label", "latency by percentile, both axes logarithmic")
	return d.end()
}
