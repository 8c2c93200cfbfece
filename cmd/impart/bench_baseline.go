package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/impart-im/impart/internal/bench"
)

func benchBaselineCommand(f *benchFlags) *cobra.Command {
	var load bench.BaselineLoad
	cmd := f.bench("baseline", "A day's busiest minute: 10,000 devices, 1,300 messages and 9,067 pushes a second",
		"Runs the load that the design plans with: 10,000 devices in groups of eight, 1,300 messages a second in bursts of four or five, each pushed to seven devices, one ack per four pushes, and 3 % of the pushes lost on the way, which the server has to deliver again. "+
			"It is an open loop: latency counts from when a message was due. Afterwards every device must have every event, and the logs must hold what was answered.",
		func(ctx context.Context, e *bench.Env) error { return e.Baseline(ctx, load) })
	benchFlag(cmd, "devices", "10000", "devices that stay connected", number(&load.Devices, 2, 1_000_000))
	benchFlag(cmd, "multiple", "1", "multiple of the rates; where --find-limit begins", fraction(&load.Multiple, 0.01, 1000))
	benchFlag(cmd, "body", "150", "bytes of a message", number(&load.Body, 16, 60_000))
	benchFlag(cmd, "duration", "60s", "how long the load is held", duration(&load.Duration, 100*time.Millisecond, 30*day))
	cmd.Flags().BoolVar(&load.FindLimit, "find-limit", false, "raise the multiple until the load is not carried any more")
	benchFlag(cmd, "step", "15s", "how long --find-limit holds each multiple", duration(&load.Step, 100*time.Millisecond, day))
	return cmd
}

// fraction reads a positive number.
func fraction(field *float64, low, high float64) reader {
	want := "a number from " + strconv.FormatFloat(low, 'g', -1, 64) + " to " + strconv.FormatFloat(high, 'g', -1, 64)
	return reader{"number", want, func(s string) error {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v >= low && v <= high) {
			return errWrong
		}
		*field = v
		return nil
	}}
}
