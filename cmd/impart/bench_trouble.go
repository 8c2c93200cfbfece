package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/impart-im/impart/internal/bench"
)

func benchStormCommand(f *benchFlags) *cobra.Command {
	var load bench.StormLoad
	cmd := f.bench("storm", "A retry storm: many clients resend at once what is stored already",
		"Lets --clients store --messages each, and then resend all of them at once, again and again, while --live senders go on in open loop. Only live sends that met a storm count against those in calm weather. "+
			"Every resend must be answered as the duplicate that it is, and written no more than once.",
		func(ctx context.Context, e *bench.Env) error { return e.Storm(ctx, load) })
	benchFlag(cmd, "clients", "1000", "clients that resend", number(&load.Clients, 1, 100_000))
	benchFlag(cmd, "messages", "10", "stored messages that each resends at once", number(&load.Messages, 1, 1000))
	benchFlag(cmd, "live", "32", "senders that go on meanwhile", number(&load.Live, 1, 10_000))
	benchFlag(cmd, "rate", "500", "sends a second of all of them together", fraction(&load.Rate, 1, 1_000_000))
	benchFlag(cmd, "body", "150", "bytes of a message", number(&load.Body, 1, 60_000))
	benchFlag(cmd, "duration", "10s", "how long the calm lasts, and how long there are storms; more than three times --every, for three storms", duration(&load.Duration, time.Second, day))
	benchFlag(cmd, "every", "2s", "time between the beginnings of two storms", duration(&load.Every, 200*time.Millisecond, day))
	return cmd
}

func benchStartCommand(f *benchFlags) *cobra.Command {
	var load bench.StartLoad
	cmd := f.bench("start", "How long a start takes, with many events after kill -9 and on an empty store",
		"Stores --events in a server of its own, and then, in turns: kills it with SIGKILL under load and starts it again, and does the same with a server on an empty store. Time counts from the start of the process to its ready line. "+
			"Afterwards the logs must hold what was answered before the kills.",
		func(ctx context.Context, e *bench.Env) error { return e.Restart(ctx, load) })
	benchFlag(cmd, "events", "1000000", "events that are stored before", number(&load.Events, 0, 1_000_000_000))
	benchFlag(cmd, "rounds", "5", "starts of each kind; medians count", number(&load.Rounds, 1, 1000))
	benchFlag(cmd, "body", "150", "bytes of a message", number(&load.Body, 1, 60_000))
	return cmd
}
