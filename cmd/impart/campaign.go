package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/campaign"
	"github.com/impart-im/impart/internal/lab/campaign/processes"
)

// campaignFlags are those of impart lab campaign.
type campaignFlags struct {
	seed, runs            uint64
	parallel              int
	binary, ledger, store string
	simulate, show, json  bool
	redis                 bool
}

func labCampaignCommand(env streams) *cobra.Command {
	var f campaignFlags
	cmd := &cobra.Command{
		Use:   "campaign",
		Short: "Run schedules drawn from seeds, and judge their histories",
		Long: "Draws a schedule from each seed: devices that send, recall, go away, crash, are reinstalled and come back from backups; links that fail; a server that is killed, drained and restored. " +
			"It runs each on a real server and on clients built on the SDK, and judges what they saw: each log against a sequential model, and the invariants D1 to D17. Ends with 1 if something was found.\n\n" +
			"A seed always draws the same schedule. What the machine does in between is not in its hand: a finding may need a few runs to show again.\n\n" +
			"With --store postgres or mysql three nodes share a database, with a synchronous standby in some runs: nodes are killed, drained, frozen and cut from the database one by one, and the database is stopped, killed, frozen and replaced. With --redis each node is a gateway and a logic node: they are killed and frozen one by one too, the ways between them are cut, and Redis is killed, frozen and wiped.\n\n" +
			"With --simulate the runs are in virtual time: the server's own code on a store in memory, thousands of them in minutes. That is a Go test and needs the source tree and the go command.\n\n" +
			"Every run is a line of the ledger. A campaign that was interrupted goes on where it stopped, as long as the version is the same.",
		Example: "# 200 runs with real processes\nimpart lab campaign --runs 200 --seed 1\n\n# 100 with three nodes on PostgreSQL\nimpart lab campaign --store postgres --runs 100\n\n# 100 with gateways and logic nodes apart, on MariaDB\nimpart lab campaign --store mysql --redis --runs 100\n\n# 10,000 in virtual time\nimpart lab campaign --simulate --runs 10000 --seed 1\n\n" +
			"# one seed again, and what it does\nimpart lab campaign --seed 17 --runs 1 --ledger ''\nimpart lab campaign --seed 17 --show",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return f.run(ctx, cmd, env)
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&f.seed, "seed", 1, "the first seed")
	flags.Uint64Var(&f.runs, "runs", 20, "how many seeds, one after the other")
	flags.IntVar(&f.parallel, "parallel", 4, "runs at a time; not with --simulate, which uses every core")
	flags.BoolVar(&f.simulate, "simulate", false, "run in virtual time")
	flags.BoolVar(&f.show, "show", false, "show the schedule of the first seed and do nothing else")
	flags.StringVar(&f.binary, "binary", "", "program built with -tags fault that servers run")
	flags.StringVar(&f.ledger, "ledger", filepath.Join(evidenceFolder, "campaign.jsonl"), "file of the runs so far; '' keeps none")
	flags.StringVar(&f.store, "store", string(lab.SQLite), "what servers keep their messages in: sqlite, postgres or mysql (private servers, which need the programs of PostgreSQL or MariaDB)")
	flags.BoolVar(&f.redis, "redis", false, "with --store postgres or mysql: gateways and logic nodes apart, with a private Redis between them")
	addJSON(cmd, &f.json)
	return cmd
}

// nodes reports whether plans are for several nodes on one database.
func (f *campaignFlags) nodes() bool {
	return f.store == string(lab.PostgreSQL) || f.store == string(lab.MySQL)
}

// kind is how plans are run.
func (f *campaignFlags) kind() campaign.Kind {
	if f.simulate {
		return campaign.Simulated
	}
	if !f.nodes() {
		return campaign.Processed
	}
	kind := campaign.Clustered
	if f.redis {
		kind = campaign.Apart
	}
	if f.store == string(lab.MySQL) {
		kind += campaign.OnMySQL
	}
	return kind
}

// draw makes the plan of a seed.
func (f *campaignFlags) draw(seed uint64, steps int) *campaign.Plan {
	if f.redis {
		return campaign.DrawApart(seed, steps)
	}
	if f.nodes() {
		return campaign.DrawNodes(seed, steps)
	}
	return campaign.Draw(seed, steps)
}

// campaignReport is what a campaign has shown.
type campaignReport struct {
	Kind    campaign.Kind    `json:"kind"`
	Version string           `json:"version"`
	First   uint64           `json:"seed"`
	Runs    uint64           `json:"runs"`
	Clean   uint64           `json:"clean"`
	Before  uint64           `json:"before"` // of them, the ledger had already
	MS      int64            `json:"ms"`
	Faulty  []campaign.Entry `json:"faulty"` // with a finding, or that could not be carried out
}

func (f *campaignFlags) run(ctx context.Context, cmd *cobra.Command, env streams) error {
	if f.store != string(lab.SQLite) && !f.nodes() {
		return usagef("--store is %q and should be sqlite, postgres or mysql", f.store)
	}
	if f.redis && !f.nodes() {
		return usagef("--redis needs --store postgres or mysql")
	}
	if f.simulate && f.nodes() {
		return usagef("--simulate has its store in memory: leave out --store")
	}
	if f.show {
		_, err := fmt.Fprint(cmd.OutOrStdout(), f.draw(f.seed, campaign.Length))
		return err
	}
	if f.runs == 0 || f.parallel < 1 {
		return usagef("--runs and --parallel should be at least 1")
	}
	dir, err := os.MkdirTemp("", "impart-campaign-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	show := newLabProgress(env, cmd.ErrOrStderr())
	r := &campaignReport{Kind: f.kind(), First: f.seed, Faulty: []campaign.Entry{}}
	began := time.Now()
	told := func(e campaign.Entry, before bool) {
		r.add(e, before)
		if !e.Clean() {
			show.end()
			fmt.Fprintln(cmd.ErrOrStderr(), f.text(&e))
		}
		show.say(fmt.Sprintf("[%d/%d] %d clean, %.1f runs a second …", r.Runs, f.runs, r.Clean, float64(r.Runs-r.Before)/time.Since(began).Seconds()))
	}
	show.say("a program for it …")
	if f.simulate {
		err = f.simulated(ctx, dir, r, told)
	} else {
		err = f.processed(ctx, dir, r, told)
	}
	show.end()
	r.MS = time.Since(began).Milliseconds()
	if err != nil && ctx.Err() == nil {
		return err
	}
	return f.report(cmd, r, ctx.Err() != nil)
}

func (r *campaignReport) add(e campaign.Entry, before bool) {
	r.Runs++
	if before {
		r.Before++
	}
	if e.Clean() {
		r.Clean++
	} else {
		r.Faulty = append(r.Faulty, e)
	}
}

// text is a run that was not clean, and how to run it again.
func (f *campaignFlags) text(e *campaign.Entry) string {
	lines := []string{fmt.Sprintf("seed %d:", e.Seed)}
	for _, finding := range e.Findings {
		lines = append(lines, "  "+finding)
	}
	if e.Error != "" {
		lines = append(lines, "  could not be run: "+e.Error)
	}
	again := fmt.Sprintf("impart lab campaign --seed %d --runs 1 --ledger ''", e.Seed)
	if f.simulate {
		again += " --simulate"
	}
	if f.nodes() {
		again += " --store " + f.store
	}
	if f.redis {
		again += " --redis"
	}
	return strings.Join(append(lines, "  again: "+again), "\n")
}

func (f *campaignFlags) report(cmd *cobra.Command, r *campaignReport, interrupted bool) error {
	if f.json {
		if err := printJSON(cmd.OutOrStdout(), r); err != nil {
			return err
		}
	} else {
		took := (time.Duration(r.MS) * time.Millisecond).Round(100 * time.Millisecond)
		fmt.Fprintf(cmd.OutOrStdout(), "%d of %d runs from seed %d (%s), %d of them before; %d clean, %d not, in %v\n",
			r.Runs, f.runs, r.First, r.Kind, r.Before, r.Clean, len(r.Faulty), took)
	}
	if interrupted || len(r.Faulty) > 0 || r.Runs < f.runs {
		return errSilent
	}
	return nil
}

// processed runs plans on real processes.
func (f *campaignFlags) processed(ctx context.Context, dir string, r *campaignReport, told func(campaign.Entry, bool)) (err error) {
	binary, err := lab.Program(ctx, f.binary, dir)
	if err != nil {
		return err
	}
	mark, err := lab.Fingerprint(binary)
	if err != nil {
		return err
	}
	r.Version = versionOf(ctx, binary) + " " + mark
	c := &campaign.Campaign{
		First: f.seed, Runs: f.runs, Steps: campaign.Length, Parallel: f.parallel, Version: r.Version, Kind: r.Kind, Told: told, Draw: f.draw,
		Run: func(ctx context.Context, plan *campaign.Plan) (campaign.Result, error) {
			home := filepath.Join(dir, strconv.FormatUint(plan.Seed, 10))
			result, err := processes.Run(ctx, plan, processes.Config{Binary: binary, Dir: home, Store: f.store}, nil)
			return result, errors.Join(err, os.RemoveAll(home))
		},
	}
	if f.ledger != "" {
		if c.Ledger, err = campaign.OpenLedger(f.ledger, c.Version, c.Kind, c.Steps); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Ledger.Close()) }()
	}
	return c.Do(ctx)
}

// simulated builds the test of the simulation, runs it, and follows its ledger.
func (f *campaignFlags) simulated(ctx context.Context, dir string, r *campaignReport, told func(campaign.Entry, bool)) error {
	program, mark, err := lab.Simulation(ctx, dir)
	if err != nil {
		return err
	}
	version := buildInfo().String() + " " + mark
	r.Version = version
	path := f.ledger
	if path == "" {
		path = filepath.Join(dir, "ledger.jsonl")
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	ledger, err := campaign.OpenLedger(path, version, r.Kind, campaign.Length)
	if err != nil {
		return err
	}
	defer ledger.Close()
	left := map[uint64]bool{}
	for seed := f.seed; seed < f.seed+f.runs; seed++ {
		if e, done := ledger.Done(seed); done {
			told(e, true)
			continue
		}
		left[seed] = true
	}
	test := exec.CommandContext(ctx, program, "-test.run", "^TestSimulation$", "-test.timeout", "0")
	test.Cancel = func() error { return test.Process.Signal(os.Interrupt) }
	test.Env = append(os.Environ(), "CAMPAIGN_LEDGER="+path, "CAMPAIGN_VERSION="+version,
		fmt.Sprintf("CAMPAIGN_SEED=%d", f.seed), fmt.Sprintf("CAMPAIGN_RUNS=%d", f.runs))
	if len(left) == 0 {
		return nil
	}
	return follow(ctx, test, ledger, left, told)
}

// follow runs the test until it ends, and tells of each run that its ledger gains.
func follow(ctx context.Context, test *exec.Cmd, ledger *campaign.Ledger, left map[uint64]bool, told func(campaign.Entry, bool)) error {
	ended := make(chan error, 1)
	var out []byte
	go func() {
		var err error
		out, err = test.CombinedOutput()
		ended <- err
	}()
	for {
		var failed error
		over := false
		select {
		case failed = <-ended:
			over = true
		case <-time.After(time.Second):
		}
		entries, err := ledger.Gained()
		if err != nil {
			return err
		}
		for _, e := range entries {
			if left[e.Seed] {
				delete(left, e.Seed)
				told(e, false)
			}
		}
		if !over {
			continue
		}
		if len(left) > 0 && ctx.Err() == nil {
			return fmt.Errorf("the simulation ended early (%w), with %d runs left:\n%s", failed, len(left), out[max(0, len(out)-4000):])
		}
		return ctx.Err()
	}
}
