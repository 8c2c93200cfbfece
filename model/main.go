// Command model checks the protocol as a model. It runs spin over every state
// of each model in this folder, which must break nothing, and then over each
// model with one guard taken out, which must break the invariant that the guard
// stands for. It checks the protocol and the ideas of the code, not the code.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
)

func main() {
	spin := flag.String("spin", "spin", "path of spin")
	cc := flag.String("cc", "cc", "path of a C compiler")
	only := flag.String("run", "", "only the runs whose `pattern` matches MODEL or MODEL/MACRO")
	asJSON := flag.Bool("json", false, "print the results as JSON")
	trail := flag.Bool("trail", false, "tell the steps that lead to each violation, in the words of the model")
	verbose := flag.Bool("v", false, "with -trail: also print each statement and value, as spin does")
	flag.Usage = usage
	flag.Parse()
	ctx, stop := interruptible(context.Background())
	tools := tools{spin: *spin, cc: *cc, trail: *trail, verbose: *verbose}
	err := run(ctx, tools, *only, *asJSON, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
}

// interruptible is ctx that ends at Ctrl-C, so that what was made is taken away.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

func usage() {
	out := flag.CommandLine.Output()
	fmt.Fprintln(out, "usage: make model MODELFLAGS='FLAGS', as in: make model MODELFLAGS='-run send/NO_DEDUP -trail'")
	flag.PrintDefaults()
}

func run(ctx context.Context, t tools, only string, asJSON bool, out io.Writer) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	models, err := readModels(files)
	if err != nil {
		return err
	}
	var jobs []job
	for _, j := range allJobs(models) {
		if pattern.MatchString(j.name()) {
			jobs = append(jobs, j)
		}
	}
	if len(jobs) == 0 {
		var names []string
		for _, j := range allJobs(models) {
			names = append(names, j.name())
		}
		return fmt.Errorf("nothing is called %q; there is, among others: %s", only, strings.Join(near(only, names), ", "))
	}
	dir, err := os.MkdirTemp("", "impart-model-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	results := runAll(ctx, t, dir, jobs)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if asJSON {
		err = printJSON(out, results)
	} else {
		err = printTable(out, results)
	}
	if err != nil {
		return err
	}
	bad := 0
	for _, r := range results {
		if r.Fault != "" {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d runs ended as they should not", bad, len(results))
	}
	return nil
}

// runAll runs the jobs, as many at a time as there are processors. Results are
// in the order of the jobs.
func runAll(ctx context.Context, t tools, dir string, jobs []job) []result {
	results := make([]result, len(jobs))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		workers.Go(func() {
			for i := range next {
				results[i] = t.do(ctx, dir, jobs[i])
			}
		})
	}
	for i := range jobs {
		if ctx.Err() == nil {
			next <- i
		}
	}
	close(next)
	workers.Wait()
	return results
}

func printTable(out io.Writer, results []result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tTAKEN OUT\tSEARCH\tFAULTS\tSTATES\tDEPTH\tSECONDS\tFOUND\tVERDICT")
	for _, r := range results {
		verdict := "ok"
		if r.Fault != "" {
			verdict = "FAULT: " + r.Fault
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%.1f\t%s\t%s\n",
			r.Model, dash(r.Macro), r.Search, r.Faults, r.States, r.Depth, r.Seconds, dash(r.Found), verdict)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if r.Trail != "" {
			fmt.Fprintf(out, "\n%s without its guard %s, how %s breaks:\n%s", r.Model, r.Macro, r.Breaks, r.Trail)
		}
	}
	return nil
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func printJSON(out io.Writer, results []result) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(results)
}
