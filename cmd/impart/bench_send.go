package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/impart-im/impart/internal/bench"
)

func benchSendCommand(f *benchFlags) *cobra.Command {
	var load bench.SendLoad
	var rate string
	var compare []string
	cmd := f.bench("send", "Durable sends: one sender, many in closed loop, and a rate in open loop",
		"Measures sends that are answered once they are stored. First one sender alone, in turns with a commit by the store alone. Then --senders in closed loop: each waits for its answer before it sends again. "+
			"With --rate then an open loop: sends are due at fixed times, whatever the server does, and latency counts from when a send was due.",
		func(ctx context.Context, e *bench.Env) error {
			var err error
			if load.Rate, load.Share, err = parseRate(rate); err != nil {
				return err
			}
			for _, with := range compare {
				if err := oneOf("--compare", with, "naive", "raw", "roles"); err != nil {
					return err
				}
			}
			load.Naive, load.Raw = slices.Contains(compare, "naive"), slices.Contains(compare, "raw")
			if load.Apart = slices.Contains(compare, "roles"); load.Apart && e.StartApart == nil {
				return usagef("--compare: roles apart share a database, so they go with --store postgres and without --url")
			}
			if (load.Naive || load.Raw) && e.OpenStore == nil {
				return usagef("--compare: compares on this machine's disk, so it goes without --url")
			}
			return e.Send(ctx, load)
		})
	benchFlag(cmd, "senders", "256", "connections that send", number(&load.Senders, 1, 100_000))
	benchFlag(cmd, "conversations", "200", "conversations; all senders are members of each and write to all in turn", number(&load.Conversations, 1, 100_000))
	benchFlag(cmd, "body", "150", "bytes of a message", number(&load.Body, 1, 60_000))
	benchFlag(cmd, "turns", "1000", "turns of the lone sender and the lone commit", number(&load.Turns, 1, 1_000_000))
	benchFlag(cmd, "rounds", "0", "how often each window is measured; medians count; 0 is 1, or 3 with --compare", number(&load.Rounds, 0, 100))
	benchFlag(cmd, "duration", "10s", "how long each window lasts", duration(&load.Duration, 100*time.Millisecond, 30*day))
	flags := cmd.Flags()
	flags.StringVar(&rate, "rate", "", "also an open loop: sends a second, such as 5000, or a share of what the closed loop did, such as 25%")
	flags.StringSliceVar(&compare, "compare", nil, "in turns, also: naive (a server of the same kind with one transaction per message), raw (the store called directly in batches), roles (a gateway and a logic node apart, with --store postgres)")
	return cmd
}

// parseRate reads 5000 or 25%.
func parseRate(text string) (rate, share float64, err error) {
	if text == "" {
		return 0, 0, nil
	}
	percent, isShare := strings.CutSuffix(text, "%")
	value, err := strconv.ParseFloat(percent, 64)
	if err != nil || value <= 0 || value > 10_000_000 {
		return 0, 0, usagef("--rate: %q should be sends a second such as 5000, or a share such as 25%%", text)
	}
	if isShare {
		return 0, value / 100, nil
	}
	return value, 0, nil
}
