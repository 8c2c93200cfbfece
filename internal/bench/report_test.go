package bench

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
)

// sample is a report with everything in it.
func sample() *Report {
	r := newRecorder()
	for i := range 5000 {
		r.record(time.Duration(i) * time.Microsecond)
	}
	run := Run{
		Name: "2 senders <b>", Loop: Open, Seconds: 3, PointsOf: "sends a second", Of: "a send", Latency: r.latency(),
		Points: []Point{{1, 1000, 1, 5}, {2, 1500, 1.5, 9}, {3, 1200, 1.2, 7}},
	}
	run.add("sends", 3700, "")
	run.add("sends a second", 1233.4, "/s")
	return &Report{
		Bench: "send", Command: "impart bench send", Server: "its own", Machine: Machine{CPU: "a processor", Cores: 2, Memory: 8 << 30, System: "linux", Go: "go1", Load: 0.5, Fsync: r.latency()},
		Runs: []Run{run}, Ratios: []Ratio{{Name: "× other", Value: 5, Reach: 8, Why: "why"}},
		Checks: []Check{{"no message lost", true, "all there"}}, Notes: []string{"a note"},
	}
}

func TestTextReport(t *testing.T) {
	var out strings.Builder
	if err := sample().WriteText(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"a processor", "8.0 GiB", "load at the start 0.50", "open loop: due at fixed times", "1,233/s", "p99 4.95 ms", "5  × other", "at least 8: not reached",
		"ok  no message lost", "note: a note",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

// TestInterruptedIsSaidAtBothEnds: whoever reads only the end of a report sees it.
func TestInterruptedIsSaidAtBothEnds(t *testing.T) {
	r := sample()
	text := func() string {
		var out strings.Builder
		if err := r.WriteText(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if whole := text(); strings.Contains(whole, "Interrupted") {
		t.Errorf("a whole run says\n%s", whole)
	}
	r.Stopped = true
	lines := strings.Split(strings.TrimSpace(text()), "\n")
	if first, last := lines[2], lines[len(lines)-1]; !strings.HasPrefix(first, "Interrupted") || !strings.HasPrefix(last, "Interrupted") {
		t.Errorf("it begins with %q and ends with %q", first, last)
	}
}

// TestPageStandsByItself: nothing is fetched from elsewhere, no text becomes
// markup, and the pictures are well-formed.
func TestPageStandsByItself(t *testing.T) {
	var out bytes.Buffer
	if err := sample().WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, never := range []string{"<script", "src=", "href=", "url(", "@import", "<b>"} {
		if strings.Contains(page, never) {
			t.Errorf("%q is in the page", never)
		}
	}
	pictures := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(pictures) != 3 {
		t.Fatalf("%d pictures, want the rate, the latency of each second, and the percentiles", len(pictures))
	}
	for _, svg := range pictures {
		parse := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := parse.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, svg)
			}
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("a point that is nowhere: %s", svg)
		}
	}
	for _, want := range []string{"a processor", "2 senders &lt;b&gt;", "no message lost", "at least 8: not reached"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
}

func TestJSONReport(t *testing.T) {
	text, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if back.Runs[0].Latency.P99 != sample().Runs[0].Latency.P99 || !back.Checks[0].OK {
		t.Errorf("it comes back as %s", text)
	}
}

func TestReportFails(t *testing.T) {
	r := &Report{}
	if !r.Failed() {
		t.Error("a report without a check passes")
	}
	r.add(Check{"a", true, ""})
	if r.Failed() {
		t.Error("a report whose checks hold fails")
	}
	r.add(Check{"b", false, ""})
	if !r.Failed() {
		t.Error("a report with a check that does not hold passes")
	}
}

func TestRatios(t *testing.T) {
	for _, c := range []struct {
		ratio     Ratio
		met, told bool
	}{
		{Ratio{Value: 8, Reach: 8}, true, true},
		{Ratio{Value: 7.9, Reach: 8}, false, true},
		{Ratio{Value: 1.3, Reach: 1.3, AtMost: true}, true, true},
		{Ratio{Value: 1.4, Reach: 1.3, AtMost: true}, false, true},
		{Ratio{Value: 1}, false, false},
	} {
		if met, told := c.ratio.Met(); met != c.met || told != c.told {
			t.Errorf("%+v: %v, %v", c.ratio, met, told)
		}
	}
	r := &Report{}
	zero := 0.0
	for _, value := range []float64{0, 1 / zero, zero / zero} {
		r.ratio(Ratio{Name: "one side was not measured", Value: value})
	}
	if len(r.Ratios) != 0 {
		t.Errorf("%+v", r.Ratios)
	}
}

// TestABusyMachineIsSaid: a ratio that was not reached has the reason that was
// measured, the busiest of the runs that it compares, and no other.
func TestABusyMachineIsSaid(t *testing.T) {
	with := func(percent float64) Run {
		run := Run{Seconds: 2}
		counters{machineCPU: 3 + percent/100*2, "process_cpu_seconds_total": 2, ownCPU: 1}.others(&run, 2)
		return run
	}
	short := Run{}
	counters{machineCPU: 9}.others(&short, 0.1)
	for _, c := range []struct {
		value float64
		runs  []Run
		want  string
	}{
		{5, []Run{with(10), with(63)}, "at least 8: not reached; the machine was busy: other processes took 63 % of a core"},
		{5, []Run{with(10)}, "at least 8: not reached"},
		{5, []Run{short}, "at least 8: not reached"},
		{5, nil, "at least 8: not reached"},
		{9, []Run{with(63)}, "at least 8"},
	} {
		r := &Report{}
		r.ratio(Ratio{Value: c.value, Reach: 8}, c.runs...)
		if got := r.Ratios[0].Aim(); got != c.want {
			t.Errorf("%v: %q, want %q", c.value, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}} {
		if got := median(c.of); got != c.want {
			t.Errorf("median of %v is %v", c.of, got)
		}
	}
}

func TestNumbers(t *testing.T) {
	for want, v := range map[string]float64{
		"0": 0, "0.25": 0.25, "7": 7, "7.50": 7.5, "42.5": 42.5, "999": 999, "1,000": 1000, "1,234,568": 1234567.8, "-1.50": -1.5,
	} {
		if got := number(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
	for want, ms := range map[string]float64{"250 µs": 0.25, "1.5 ms": 1.5, "123 ms": 123.4, "2.50 s": 2500} {
		if got := millis(ms); got != want {
			t.Errorf("%v ms is written %q, want %q", ms, got, want)
		}
	}
}

func TestAxes(t *testing.T) {
	for _, c := range []struct{ high, step, top float64 }{{1, 0.2, 1}, {1300, 500, 1500}, {9067, 2000, 10000}, {0, 1, 1}} {
		if step, top := steps(c.high); step != c.step || top != c.top {
			t.Errorf("marks up to %v: every %v to %v, want every %v to %v", c.high, step, top, c.step, c.top)
		}
	}
	log := logarithmic(0.3, 42, 100, 0)
	if log.low != 0.1 || log.high != 100 || len(log.marks()) != 4 {
		t.Errorf("%+v with marks %v", log, log.marks())
	}
	if y := log.at(0.1); y != 100 {
		t.Errorf("the lowest is at %v", y)
	}
}

func TestCounters(t *testing.T) {
	before := parseCounters([]byte("# HELP a x\n# TYPE a counter\na 1\nim_hint_total{why=\"sweep\"} 2\n"))
	after := parseCounters([]byte("a 4\nim_hint_total{why=\"sweep\"} 3\nim_hint_total{why=\"retry\"} 5\nbad line\n"))
	d := after.since(before)
	if d["a"] != 3 || d["im_hint_total"] != 6 || d[`im_hint_total{why="retry"}`] != 5 {
		t.Errorf("%v", d)
	}
	if counters(nil).since(before) != nil || after.since(nil) != nil {
		t.Error("half of a difference")
	}
}

// What a gateway apart does not count is not told as none, and what two processes have
// counted, of which a balancer asked one each time, is not told at all.
func TestCountersOfWhatIsNotThere(t *testing.T) {
	run := Run{Seconds: 1}
	counters{"process_cpu_seconds_total": 0.5}.describe(&run)
	if len(run.Figures) == 0 || run.Figures[0].Name != "CPU of the server" {
		t.Errorf("%+v", run.Figures)
	}
	run = Run{Seconds: 1}
	counters{"process_cpu_seconds_total": -0.5, "im_store_commits_total": 1, "process_start_time_seconds": 3}.describe(&run)
	if len(run.Figures) > 0 {
		t.Errorf("%+v", run.Figures)
	}
}

// TestBaselineIsSeed000s: groups and bursts make the rates that the seed plans with.
func TestBaselineIsSeed000s(t *testing.T) {
	groups := groupsOf(baselineDevice)
	members, devices := 0.0, 0
	for _, g := range groups {
		members += float64(g[1] - g[0])
		devices += g[1] - g[0]
	}
	if devices != baselineDevice {
		t.Errorf("%d devices in groups", devices)
	}
	mean := members / float64(len(groups))
	if pushes := baselineSends * (mean - 1); pushes < 0.999*baselinePushes || pushes > 1.001*baselinePushes {
		t.Errorf("%.0f pushes a second", pushes)
	}
	sum := 0
	for _, size := range burstSizes {
		sum += size
	}
	if burstMean != float64(sum)/float64(len(burstSizes)) {
		t.Errorf("the mean of %v is not %v", burstSizes, burstMean)
	}
	if acks := mean / (mean - 1) / burstMean; acks > 0.25 || acks < 0.24 {
		t.Errorf("%.3f acks a push", acks)
	}
	for _, devices := range []int{2, 3, 9, 17, 100} {
		for _, g := range groupsOf(devices) {
			if g[1]-g[0] < 2 {
				t.Errorf("of %d devices, %v is alone", devices, g)
			}
		}
	}
}
