package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/impart-im/impart/internal/bench"
)

func benchCommand(env streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Load a server, measure it, and check that nothing was lost",
		Long: "Loads a server over WebSocket, measures it, and then reads back what it stored: a run ends with 1 when a message that was answered with sent is missing, or is there twice.\n\n" +
			"Without --url it starts a server of its own on an empty store (--dir), measures that one, and removes it. With --url it loads a running one, and leaves the conversations that it made. " +
			"That server needs an admin token (--token) to make conversations, and its users need tokens: in dev login nothing more; with IM_AUTH_HMAC_SECRET set here as it is there, the bench signs them; otherwise --tokens names a file of users and tokens.\n\n" +
			"Generator and server share the machine that this runs on, unless the server is elsewhere: the report says what machine that was. Ctrl-C ends the measuring, reports what was measured until then, and makes the run end with 1. A second one ends at once, without a report.",
		Example: "# durable sends: one sender, 256 in closed loop, and at a quarter of that in open loop\nimpart bench send --rate 25% --html send.html\n\n" +
			"# against the same server without group commit\nimpart bench send --compare naive\n\n" +
			"# a running server\nIM_ADMIN_TOKEN=… IM_AUTH_HMAC_SECRET=… impart bench send --url https://chat.example.com",
	}
	f := &benchFlags{env: env}
	flags := cmd.PersistentFlags()
	flags.String("url", "", "address of a running server; without it a server of its own is started (IM_URL does not count here)")
	flags.String("token", "", "token of that server's admin API; better given as IM_ADMIN_TOKEN")
	flags.StringVar(&f.tokens, "tokens", "", "file with a user and a token a line, for a server whose tokens only its issuer can sign")
	flags.String("config", "", "file of settings in YAML, for the secret that signs tokens; IM_CONFIG names it too")
	flags.StringVar(&f.dir, "dir", "", "folder for the store of a server of its own: use the disk that you mean to use; default is the system's folder for temporary files")
	flags.StringVar(&f.store, "store", "sqlite", "store of a server of its own: sqlite, or postgres or mysql, a private server of PostgreSQL or MariaDB that is started for it")
	flags.BoolVar(&f.json, "json", false, "print the report as JSON")
	flags.StringVar(&f.html, "html", "", "write the report as a page with plots to this file")
	cmd.AddCommand(benchSendCommand(f), benchFanoutCommand(f), benchIdleCommand(f), benchPullCommand(f), benchBaselineCommand(f), benchStormCommand(f), benchStartCommand(f), benchModelCommand(f), naiveCommand(env))
	return cmd
}

// benchFlags are the flags that every bench has, and what they lead to.
type benchFlags struct {
	env               streams
	tokens, dir, html string
	store             string // of servers of its own: sqlite, postgres or mysql
	json              bool
}

// bench is a subcommand; run does the work with what e offers.
func (f *benchFlags) bench(name, short, long string, run func(ctx context.Context, e *bench.Env) error) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Long: long, Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, run) },
	}
}

// run prepares a bench, runs it until it ends or is interrupted, and reports.
func (f *benchFlags) run(cmd *cobra.Command, run func(ctx context.Context, e *bench.Env) error) (err error) {
	report := &bench.Report{
		Bench: cmd.Name(), Command: commandLine(os.Args[1:]), Version: buildInfo().String(),
		Started: time.Now(), Machine: bench.Describe(),
	}
	if busy := report.Machine.Load; busy > float64(report.Machine.Cores)/4 {
		report.Notes = append(report.Notes, fmt.Sprintf("the machine was busy when this began (load %.2f on %d cores): the latencies are not the server's alone", busy, report.Machine.Cores))
	}
	e := &bench.Env{Report: report}
	targets := &targets{bench: e}
	// The first signal ends the measuring; a second one the process.
	ctx, stop := onInterrupt(cmd.Context(), func() { targets.abandon(f.env.stderr) })
	defer stop()
	defer func() { err = errors.Join(err, targets.close()) }()
	if err := f.prepare(ctx, cmd, targets); err != nil {
		return err
	}
	e.Start = targets.start
	done := showProgress(f.env, e)
	failed := run(ctx, e)
	done()
	report.Ended, report.Stopped = time.Now(), ctx.Err() != nil
	if failed != nil {
		if report.Stopped && errors.Is(failed, context.Canceled) {
			failed = errors.New("interrupted before it could be checked")
		}
		if len(report.Runs) == 0 && len(report.Checks) == 0 {
			return failed
		}
		report.Checks = append(report.Checks, bench.Check{Name: "the run came to its end", Detail: failed.Error()})
	}
	if err := f.write(cmd, report); err != nil {
		return err
	}
	return standing(report)
}

// standing is the error of a report whose figures stand for nothing, or for a part.
func standing(report *bench.Report) error {
	if report.Failed() {
		return errors.New("a check failed: the figures stand for nothing")
	}
	if report.Stopped {
		return errors.New("interrupted: this was not the whole run")
	}
	return nil
}

// write prints the report, and writes its page.
func (f *benchFlags) write(cmd *cobra.Command, report *bench.Report) error {
	if f.html != "" {
		if err := writePage(f.html, report); err != nil {
			return err
		}
	}
	out := cmd.OutOrStdout()
	if f.json {
		return printJSON(out, report)
	}
	return report.WriteText(out)
}

func writePage(name string, report *bench.Report) error {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return errors.Join(report.WriteHTML(file), file.Close())
}

// commandLine is the command as it may be repeated, without the admin token.
func commandLine(args []string) string {
	words := []string{"impart"}
	hide := false
	for _, arg := range args {
		switch {
		case hide:
			arg = "…"
		case strings.HasPrefix(arg, "--token="):
			arg = "--token=…"
		}
		hide = arg == "--token"
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

// benchFlag gives cmd a flag that is read by r and starts at def.
func benchFlag(cmd *cobra.Command, name, def, help string, r reader) {
	_ = r.set(def) // the defaults are right
	cmd.Flags().Var(&readFlag{r, def}, name, help)
}

// readFlag is a flag whose text a reader reads at once.
type readFlag struct {
	reader reader
	text   string
}

func (f *readFlag) String() string { return f.text }
func (f *readFlag) Type() string   { return f.reader.kind }
func (f *readFlag) Set(s string) error {
	f.text = s
	if err := f.reader.set(s); err != nil {
		return fmt.Errorf("should be %s", f.reader.want)
	}
	return nil
}
