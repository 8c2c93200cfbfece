// Command deploy checks the files in deploy/ the way the programs that read them do:
// the chart with Helm's own engine and linter and with the types of Kubernetes, the
// Dockerfile with BuildKit's parser, the compose file with the compose specification's
// loader, and the expressions of alert rules and dashboard with Prometheus' parser.
//
//	go run . -C ROOT
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("C", "../..", "root of the repository")
	render := flag.String("render", "", "print the chart with this file of values, and check nothing")
	flag.Parse()
	chart := filepath.Join(*root, "deploy", "helm", "impart")
	if *render != "" {
		if err := printChart(chart, *render); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	failed := false
	for _, c := range []struct {
		what  string
		check func() (told string, err error)
	}{
		{"chart", func() (string, error) { return checkChart(chart, filepath.Join(*root, "docs", "operations.md")) }},
		{"image", func() (string, error) { return checkImage(*root) }},
		{"compose file", func() (string, error) { return checkCompose(filepath.Join(*root, "deploy", "compose")) }},
		{"alert rules and dashboard", func() (string, error) { return checkWatching(filepath.Join(*root, "deploy")) }},
	} {
		told, err := c.check()
		if err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "%s:\n%v\n", c.what, err)
			continue
		}
		fmt.Printf("%s: %s\n", c.what, told)
	}
	if failed {
		os.Exit(1)
	}
}

// all gathers errors, each with what it is about.
type all []error

func (a *all) add(about string, err error) {
	if err != nil {
		*a = append(*a, fmt.Errorf("  %s: %w", about, err))
	}
}

func (a *all) addf(format string, args ...any) { *a = append(*a, fmt.Errorf("  "+format, args...)) }

func (a all) err() error { return errors.Join(a...) }
