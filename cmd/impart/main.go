// Command impart is the one binary of Impart: the server, and the commands that
// operate it. It is the only place that reads flags, environment variables,
// files of settings and signals, and that wires the parts together. It prints
// results on standard output and everything else on standard error, and ends
// with 0 (done), 1 (failed) or 2 (wrong usage or configuration).
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], process()))
}

// streams is everything the commands know of the process around them, so that
// tests can stand in for it.
type streams struct {
	stdout, stderr *os.File
	env            func(string) (string, bool)
	environ        func() []string
}

// process is the real process.
func process() streams {
	return streams{stdout: os.Stdout, stderr: os.Stderr, env: os.LookupEnv, environ: os.Environ}
}
