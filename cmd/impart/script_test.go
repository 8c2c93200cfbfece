package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the stories under testdata/script: each is a person at a
// shell. Besides testscript's own words they have:
//
//	server ARGS…      start `impart serve ARGS…` on a free port; its address is in IM_URL
//	signal NAME       send TERM, INT or KILL to it; TERM and INT want exit code 0 within 10 s
//	logged TEXT       the server's standard error has TEXT (! logged: has it not)
//	eventually REGEXP impart ARGS…   run it again and again, for 10 s, until its standard output matches
//	exits CODE impart ARGS…   run it and compare the exit code; stdout and stderr can be matched after it
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Values[scriptServer{}] = &scriptServer{}
			e.Vars = append(e.Vars, endAtOnce)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server": serverCommand,
			"signal": signalCommand,
			"logged": loggedCommand,
			"exits":  exitsCommand,

			"eventually": eventuallyCommand,
		},
		Condition: func(condition string) (bool, error) {
			if condition != "tmpfs" {
				return false, fmt.Errorf("unknown condition %q", condition)
			}
			d, err := diskOf(t.TempDir())
			return d.kind == "tmpfs", err
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// scriptServer is the server that a script has started, under its own type as key.
type scriptServer struct{ *serverProcess }

func serverOf(ts *testscript.TestScript) *scriptServer {
	s, _ := ts.Value(scriptServer{}).(*scriptServer)
	return s
}

func serverCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("write exits 1 impart serve … for a server that does not start")
	}
	var variables []string
	for _, name := range append([]string{configVariable, "IM_SWEPMS"}, settingNames()...) {
		if value := ts.Getenv(name); value != "" {
			variables = append(variables, name+"="+value)
		}
	}
	p, err := startServer(ts.MkAbs("."), ts.MkAbs("server.err"), variables, args...)
	ts.Check(err)
	ts.Defer(func() {
		if p.cmd.ProcessState == nil {
			_ = p.end(syscall.SIGKILL, -1)
		}
	})
	serverOf(ts).serverProcess = p
	ts.Setenv("IM_URL", p.url)
	ts.Setenv("ADDRESS", strings.TrimPrefix(strings.TrimPrefix(p.url, "http://"), "https://"))
}

func settingNames() []string {
	var names []string
	for _, s := range settings(&config{}) {
		names = append(names, s.name)
	}
	return names
}

func signalCommand(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}
	if neg || len(args) != 1 || signals[args[0]] == 0 {
		ts.Fatalf("usage: signal TERM|INT|KILL")
	}
	code := 0
	if args[0] == "KILL" {
		code = -1
	}
	ts.Check(serverOf(ts).end(signals[args[0]], code))
}

func loggedCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: logged TEXT")
	}
	log := serverOf(ts).log()
	if strings.Contains(log, args[0]) == neg {
		ts.Fatalf("the log has %q: %v; it is\n%s", args[0], !neg, log)
	}
}

func exitsCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE|CODE… impart ARGS…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if !slices.Contains(strings.Split(args[0], "|"), strconv.Itoa(got)) {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

func eventuallyCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually REGEXP impart ARGS…")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for began := time.Now(); time.Since(began) < 10*time.Second; {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if want.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("its output never matches %s", want)
}
