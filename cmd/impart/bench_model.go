package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/impart-im/impart/internal/bench"
)

func benchModelCommand(f *benchFlags) *cobra.Command {
	m := &modelFlags{benchFlags: f}
	cmd := &cobra.Command{
		Use:   "model",
		Short: "How many nodes 1, 10, 100 and 1,000 times the planned load need",
		Long: "Measures on this machine what a send, a push, an ack and a read cost, in short windows, and computes from it how many gateways, logic nodes and database writes multiples of the planned load need. " +
			"The load is that of impart bench baseline: 1,300 messages and 9,067 pushes a second, one ack per four pushes, 3 % of the pushes delivered again. " +
			"What is more than was measured is extrapolated in a straight line; the assumptions are printed, and each is a flag.\n\n" +
			"With --from FILE nothing is measured: the costs are those that an earlier run wrote with --json.",
		Example: "# measure on a private PostgreSQL, and keep what was found\nimpart bench model --store postgres --json > costs.json\n\n" +
			"# the same costs on larger nodes\nimpart bench model --from costs.json --cores 16 --memory-gib 32 --connections 200000",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd) },
	}
	l, a := &m.load, &m.load.Assumed
	cmd.Flags().StringVar(&m.from, "from", "", "file with the JSON of an earlier run, to compute from instead of measuring")
	benchFlag(cmd, "at", "0.5", "multiple of the planned rates at which costs are measured", fraction(&l.Multiple, 0.01, 100))
	benchFlag(cmd, "connected", "2000", "devices connected while the mix is measured", number(&l.Devices, 2, 1_000_000))
	benchFlag(cmd, "senders", "64", "connections in the windows of one kind of operation, and conversations", number(&l.Senders, 1, 10_000))
	benchFlag(cmd, "body", "150", "bytes of a message", number(&l.Body, 16, 60_000))
	benchFlag(cmd, "duration", "5s", "how long each of the five windows lasts", duration(&l.Duration, 100*time.Millisecond, day))
	cmd.Flags().BoolVar(&l.Together, "together", false, "measure both roles in one process, also where they can be apart")
	benchFlag(cmd, "multiples", "1,10,100,1000", "multiples of the planned load to compute, by comma", list(&m.multiples, checkMultiple))
	benchFlag(cmd, "devices", "10000", "devices connected at once, for each multiple", fraction(&a.Devices, 1, 1e9))
	benchFlag(cmd, "cores", "4", "cores of a gateway and of a logic node", fraction(&a.Cores, 0.1, 1024))
	benchFlag(cmd, "use", "0.5", "share of the cores to plan with", fraction(&a.Use, 0.01, 1))
	benchFlag(cmd, "memory-gib", "4", "memory of a gateway for its connections, in GiB", fraction(&m.gibs, 0.1, 10_000))
	benchFlag(cmd, "connections", "50000", "connections that a gateway may have", fraction(&a.Connections, 1, 1e8))
	benchFlag(cmd, "spare", "1", "gateways, and logic nodes, that may be missing", number(&m.spare, 0, 1000))
	benchFlag(cmd, "hop", "0.3", "share of the throughput that gRPC between gateways and logic nodes takes, where they were not measured apart", fraction(&a.Hop, 0, 0.95))
	benchFlag(cmd, "db-cores", "16", "cores of one database server", fraction(&a.DBCores, 0.1, 1024))
	benchFlag(cmd, "db-log", "200", "what one database server logs a second at most, in MB", fraction(&m.logMB, 0.1, 1e6))
	benchFlag(cmd, "retention-days", "30", "days that messages are kept", fraction(&a.Retention, 0.01, 36_500))
	return cmd
}

// modelFlags are the flags of the model, and the load that they make.
type modelFlags struct {
	*benchFlags
	load        bench.ModelLoad
	from        string
	multiples   []string
	spare       int
	gibs, logMB float64
}

func (m *modelFlags) run(cmd *cobra.Command) error {
	a := &m.load.Assumed
	a.Memory, a.DBLog, a.Spare = m.gibs*(1<<30), m.logMB*1e6, float64(m.spare)
	// Here 0 is none; there it is the default.
	if a.Spare == 0 {
		a.Spare = -1
	}
	if a.Hop == 0 {
		a.Hop = -1
	}
	for _, text := range m.multiples {
		v, _ := strconv.ParseFloat(text, 64) // checked as it was read
		a.Multiples = append(a.Multiples, v)
	}
	slices.Sort(a.Multiples)
	if m.from == "" {
		if cmd.Flags().Changed("url") {
			return usagef("--url: the model measures a server of its own, to know what each of its parts takes; run it on the kind of machine that you plan with")
		}
		return m.benchFlags.run(cmd, func(ctx context.Context, e *bench.Env) error { return e.Model(ctx, m.load) })
	}
	report, err := readModel(m.from, *a)
	if err != nil {
		return err
	}
	if err := m.write(cmd, report); err != nil {
		return err
	}
	return standing(report)
}

// readModel computes a model anew from the costs of an earlier report.
func readModel(name string, a bench.Assumptions) (*bench.Report, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, usagef("--from: %w", err)
	}
	var report bench.Report
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, usagef("--from: %s should be what impart bench model --json printed: %w", name, err)
	}
	if report.Model == nil {
		return nil, usagef("--from: %s has no costs: it should be what impart bench model --json printed", name)
	}
	if report.Model, err = bench.NewModel(report.Model.Costs, a); err != nil {
		return nil, usagef("--from: %s: %w", name, err)
	}
	report.Notes = append(report.Notes, fmt.Sprintf("nothing was measured now: the costs are those of %s, from %s", name, report.Started.Format(time.DateTime)))
	return &report, nil
}

var errMultiple = errors.New("should be numbers such as 1,10,100")

// checkMultiple checks one of --multiples.
func checkMultiple(text string) error {
	if v, err := strconv.ParseFloat(text, 64); err != nil || !(v > 0 && v <= 1e6) {
		return errMultiple
	}
	return nil
}
