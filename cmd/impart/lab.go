package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/checks"
	"github.com/impart-im/impart/internal/lab/report"
)

// evidenceFolder is where runs of the lab are kept unless --out says otherwise.
const evidenceFolder = "evidence"

func labCommand(env streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Break real servers and see what still holds",
		Long: "The lab starts real servers and clients, breaks things, and looks from outside at what is left: rows of the database, frames on the wire, what clients stored. " +
			"Each check also runs with one guard switched off (its twins) and has to report that: a check that cannot fail would be worth nothing.\n\n" +
			"The 06-… and 002-… names are those of the two design texts that Impart was built from; the other checks came later.",
		Example: "# what can be checked?\nimpart lab list\n\n# everything\nimpart lab run\n\n# crashes around the commit of a message\nimpart lab run '06-crash-*'",
	}
	cmd.AddCommand(labListCommand(), labRunCommand(env), labReportCommand(env), labClientCommand(env), labDiskCommand(env), labCampaignCommand(env))
	return cmd
}

func labListCommand() *cobra.Command {
	var asJSON bool
	var on deployment
	cmd := &cobra.Command{
		Use:   "list [NAME…]",
		Short: "Show every check: what must hold, what is broken, and its twins",
		Long:  "Shows the checks with the invariant that each is about. A NAME may be a pattern, such as '06-*'.",
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := chooseChecks(on, args)
			if err != nil {
				return err
			}
			return report.List(cmd.OutOrStdout(), chosen, asJSON)
		},
	}
	on.add(cmd)
	addJSON(cmd, &asJSON)
	return cmd
}

// deployment are the flags that say what servers of the lab consist of.
type deployment struct {
	store string
	redis bool
}

func (d *deployment) add(cmd *cobra.Command) {
	addEngine(cmd, &d.store)
	cmd.Flags().BoolVar(&d.redis, "redis", false, "run gateways and logic nodes with a Redis between them (private, which needs redis-server) instead of whole servers")
}

func (d deployment) shape() lab.Shape {
	if d.redis {
		return lab.Apart
	}
	return lab.Whole
}

// addEngine adds the flag that says what the servers of the lab keep messages in.
func addEngine(cmd *cobra.Command, engine *string) {
	cmd.Flags().StringVar(engine, "store", string(lab.SQLite), "what servers keep their messages in: sqlite, postgres or mysql (private servers, which need PostgreSQL's or MariaDB's programs)")
}

// labEngine is the engine of that name.
func labEngine(name string) (lab.Engine, error) {
	if !slices.Contains(lab.Engines(), lab.Engine(name)) {
		return "", usagef("--store is %q and should be sqlite, postgres or mysql", name)
	}
	return lab.Engine(name), nil
}

// chooseChecks gives the checks of these names or patterns that there are for a
// deployment, all without a name.
func chooseChecks(on deployment, names []string) ([]lab.Check, error) {
	store, err := labEngine(on.store)
	if err != nil {
		return nil, err
	}
	if on.redis && store == lab.SQLite {
		return nil, usagef("--redis needs --store postgres or mysql: only one process can have a file of SQLite")
	}
	all := checks.All()
	chosen, err := lab.Select(all, names)
	var unknown *lab.UnknownError
	if errors.As(err, &unknown) {
		ids := make([]string, len(all))
		for i, c := range all {
			ids[i] = c.ID
		}
		near := suggest(unknown.Name, ids)
		if i := slices.IndexFunc(ids, func(id string) bool { return strings.Contains(id, unknown.Name) }); near == "" && i >= 0 {
			near = ids[i] // the prefix was left out
		}
		if near != "" {
			return nil, usagef("no check is called %q; did you mean %s?", unknown.Name, near)
		}
	}
	if err != nil {
		return nil, usageError{err}
	}
	left := lab.On(store, on.shape(), chosen)
	if len(left) == 0 {
		return nil, usagef("there is no such check for --store %s in this shape: %s is for another one", store, chosen[0].ID)
	}
	return left, nil
}

// labRun are the flags of impart lab run.
type labRun struct {
	on                        deployment
	out, binary               string
	short, strict, keep, json bool
}

func labRunCommand(env streams) *cobra.Command {
	var flags labRun
	cmd := &cobra.Command{
		Use:   "run [NAME…]",
		Short: "Run checks, each with its twins, and keep the evidence",
		Long: "Runs the checks that are named, or all. A NAME may be a pattern, such as '06-*'. " +
			"Verdicts, logs of every process and a timeline go to evidence/RUN; result.json is there for machines.\n\n" +
			"PASS: nothing was violated, the fault bit, and every twin was caught. NOT_RUN: this machine lacks something; it never counts as PASS. " +
			"Ends with 1 if a check failed, and with --strict also if one did not run.\n\n" +
			"The servers need a program built with fault points. Inside the source tree one is built; elsewhere name it with --binary.",
		Example: "# everything\nimpart lab run\n\n# the quick set\nimpart lab run --short\n\n# one check, and keep its stores to look into\nimpart lab run --keep power-cut\n\n# everything on PostgreSQL\nimpart lab run --store postgres\n\n# gateways and logic nodes apart\nimpart lab run --store postgres --redis",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return flags.run(listened(ctx, cmd), cmd, env, args)
		},
	}
	cmd.Flags().StringVar(&flags.out, "out", evidenceFolder, "folder that the evidence of the run goes under")
	cmd.Flags().StringVar(&flags.binary, "binary", "", "program built with -tags fault that servers and clients run")
	cmd.Flags().BoolVar(&flags.short, "short", false, "only the quick set")
	cmd.Flags().BoolVar(&flags.strict, "strict", false, "a check that could not run is a failure too")
	cmd.Flags().BoolVar(&flags.keep, "keep", false, "keep the stores of all checks; else only those of failed ones stay")
	flags.on.add(cmd)
	addJSON(cmd, &flags.json)
	return cmd
}

func (f *labRun) run(ctx context.Context, cmd *cobra.Command, env streams, names []string) error {
	chosen, err := chooseChecks(f.on, names)
	if err != nil {
		return err
	}
	if f.short {
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(c lab.Check) bool { return !c.Short })
	}
	if len(chosen) == 0 {
		return usagef("none of these checks is in the quick set: leave out --short")
	}
	built, err := os.MkdirTemp("", "impart-lab-build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(built)
	show := newLabProgress(env, cmd.ErrOrStderr())
	show.say("a program with fault points …")
	binary, err := lab.Program(ctx, f.binary, built)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(f.out)
	if err != nil {
		return err
	}
	out, err := lab.NewRun(dir)
	if err != nil {
		return err
	}
	result, err := lab.Run(ctx, chosen, lab.Options{
		Binary: binary, Version: versionOf(ctx, binary), Out: out, Keep: f.keep, Store: lab.Engine(f.on.store), Shape: f.on.shape(), Progress: show.step,
	})
	show.end()
	interrupted := ctx.Err() != nil
	if result == nil || err != nil && !interrupted {
		return err
	}
	page, err := report.Write(out)
	if err != nil {
		return err
	}
	if err := showResult(cmd, result, f.json); err != nil {
		return err
	}
	if !f.json {
		fmt.Fprintf(cmd.OutOrStdout(), "\nevidence: %s\ntimeline: %s\n", shortPath(out), shortPath(page))
	}
	if interrupted || result.Count(lab.Fail) > 0 || f.strict && result.Count(lab.NotRun) > 0 {
		return errSilent
	}
	return nil
}

// versionOf is what the program says of itself.
func versionOf(ctx context.Context, binary string) string {
	c := exec.CommandContext(ctx, binary, "version")
	c.Env = []string{}
	says, err := c.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimPrefix(strings.TrimSpace(string(says)), "impart ")
}

func showResult(cmd *cobra.Command, r *lab.Result, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), r)
	}
	return report.Table(cmd.OutOrStdout(), r)
}

// shortPath is name from the working directory on, where that is shorter.
func shortPath(name string) string {
	dir, err := os.Getwd()
	if err != nil {
		return name
	}
	if rel, err := filepath.Rel(dir, name); err == nil && len(rel) < len(name) {
		return rel
	}
	return name
}

func labReportCommand(env streams) *cobra.Command {
	var out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "report [RUN]",
		Short: "Show a run again: the table, and the timeline written anew",
		Long:  "Shows what a run of the lab gave, the last one if none is named, and writes its timeline anew. RUN is a name under evidence/ or the path of a folder.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("impart lab report takes one run, but got %q", args[1])
			}
			dir, err := runFolder(out, args)
			if err != nil {
				return err
			}
			result, err := lab.ReadResult(dir)
			if err != nil {
				return err
			}
			page, err := report.Write(dir)
			if err != nil {
				return err
			}
			if err := showResult(cmd, result, asJSON); err != nil || asJSON {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "\ntimeline: %s\n", shortPath(page))
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", evidenceFolder, "folder that the evidence of runs is under")
	addJSON(cmd, &asJSON)
	return cmd
}

// runFolder finds the folder of a run, of the last one if none is named.
func runFolder(out string, args []string) (string, error) {
	if len(args) == 1 {
		_, err := os.Stat(args[0])
		if err == nil || filepath.IsAbs(args[0]) {
			return args[0], nil
		}
		return filepath.Join(out, args[0]), nil
	}
	results, err := filepath.Glob(filepath.Join(out, "*", "result.json"))
	if err != nil {
		return "", err
	}
	if len(results) == 0 {
		return "", errors.New("there is no run of the lab in " + out + ": impart lab run makes one")
	}
	return filepath.Dir(slices.Max(results)), nil
}
