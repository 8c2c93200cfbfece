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
	"regexp"
	"runtime"
	"sync"
	"text/tabwriter"
)

func main() {
	spin := flag.String("spin", "spin", "path of spin")
	cc := flag.String("cc", "cc", "path of a C compiler")
	only := flag.String("run", "", "only the runs whose `pattern` matches MODEL or MODEL/MACRO")
	asJSON := flag.Bool("json", false, "print the results as JSON")
	trail := flag.Bool("trail", false, "print the steps that lead to each violation")
	flag.Parse()
	tools := tools{spin: *spin, cc: *cc, trail: *trail}
	if err := run(context.Background(), tools, *only, *asJSON, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
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
		return fmt.Errorf("nothing is called %q; see the tables in model/README.md", only)
	}
	dir, err := os.MkdirTemp("", "impart-model-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	results := runAll(ctx, t, dir, jobs)
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
		next <- i
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
			fmt.Fprintf(out, "\n%s %s\n%s", r.Model, r.Macro, r.Trail)
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
