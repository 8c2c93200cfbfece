package bench

import (
	"bufio"
	"bytes"
	"context"
	"strconv"
	"strings"
)

// counters are the server's own metrics at one moment, summed over their labels
// and also by name and label as they stand in /metrics, together with what this
// process and the whole machine have used of the processors.
type counters map[string]float64

// What is not the server's.
const (
	ownCPU     = "bench: this process, seconds"
	storeCPU   = "bench: the database, seconds"
	machineCPU = "bench: the machine, seconds"
	logicCPU   = "bench: the logic node, seconds" // part of the server's
)

// counters reads the server's metrics; nil where it does not show them.
func (e *Env) counters(ctx context.Context, t *Target) counters {
	if t.Metrics == nil {
		return nil
	}
	text, err := t.Metrics(context.WithoutCancel(ctx))
	if err != nil {
		e.Report.note("the server's metrics cannot be read: " + err.Error())
		return nil
	}
	c := parseCounters(text)
	c[ownCPU] = cpuTime().Seconds()
	if t.Process != nil {
		c[machineCPU] = busyTime().Seconds()
	}
	if t.LogicMetrics != nil {
		text, err := t.LogicMetrics(context.WithoutCancel(ctx))
		if err != nil {
			e.Report.note("the logic node's metrics cannot be read: " + err.Error())
			return nil
		}
		c[logicCPU] = parseCounters(text)["process_cpu_seconds_total"]
	}
	if t.Database != nil {
		c[storeCPU] = t.Database().Seconds()
	}
	return c
}

// parseCounters reads the text form of Prometheus: one "name{labels} value" a line.
func parseCounters(text []byte) counters {
	c := counters{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			continue
		}
		full := line[:at]
		name, _, labelled := strings.Cut(full, "{")
		c[name] += value
		if labelled {
			c[full] = value
		}
	}
	return c
}

// since is what has happened since an earlier moment.
func (c counters) since(before counters) counters {
	if c == nil || before == nil {
		return nil
	}
	d := counters{}
	for name, value := range c {
		d[name] = value - before[name]
	}
	return d
}

// describe adds to a run what the server counted while it went on.
func (c counters) describe(run *Run) {
	if c == nil || run.Seconds == 0 {
		return
	}
	if c["process_start_time_seconds"] != 0 {
		return // another process answered the second time, behind a balancer or after a restart
	}
	if commits, stores := c["im_store_commits_total"]; stores { // a gateway apart stores nothing
		run.add("transactions a second", commits/run.Seconds, "/s")
		if commits > 0 {
			run.add("items a transaction", c["im_store_items_total"]/commits, "")
		}
	}
	server, own := c["process_cpu_seconds_total"], c[ownCPU]
	run.add("CPU of the server", 100*server/run.Seconds, "% of a core")
	if used, apart := c[storeCPU]; apart {
		run.add("CPU of the database", 100*used/run.Seconds, "% of a core")
	}
	run.add("CPU of the bench", 100*own/run.Seconds, "% of a core")
	c.others(run, run.Seconds)
}

// othersCPU is the figure of what neither the server with its database nor the
// bench has used.
const othersCPU = "CPU of anything else on this machine"

// others adds to a run how busy the rest of the machine was in so many seconds,
// where it is known. The system counts in hundredths of a second, so that a short
// time tells nothing.
func (c counters) others(run *Run, seconds float64) {
	const least = 0.5
	if all := c[machineCPU]; all > 0 && seconds >= least {
		run.add(othersCPU, 100*max(all-c["process_cpu_seconds_total"]-c[ownCPU]-c[storeCPU], 0)/seconds, "% of a core")
	}
}
