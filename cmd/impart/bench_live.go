package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/impart-im/impart/internal/bench"
)

func benchFanoutCommand(f *benchFlags) *cobra.Command {
	var load bench.FanoutLoad
	cmd := f.bench("fanout", "One conversation, many live devices, one sender",
		"Measures how fast the messages of one sender reach the live devices of one conversation, each stored first. The sender keeps --ahead messages in flight (a closed loop), or sends at --rate (an open loop). "+
			"What a device does not get by push, because its queue was full, it fetches itself; afterwards each must have everything.",
		func(ctx context.Context, e *bench.Env) error { return e.Fanout(ctx, load) })
	benchFlag(cmd, "devices", "500", "live devices, one a user", number(&load.Devices, 1, 1_000_000))
	benchFlag(cmd, "ahead", "64", "messages that the sender has in flight", number(&load.Ahead, 1, 1024))
	benchFlag(cmd, "rate", "0", "messages a second in open loop; 0 is as fast as --ahead allows", fraction(&load.Rate, 0, 1_000_000))
	benchFlag(cmd, "body", "150", "bytes of a message", number(&load.Body, 16, 60_000))
	benchFlag(cmd, "duration", "10s", "how long the sender sends", duration(&load.Duration, 100*time.Millisecond, 30*day))
	return cmd
}

func benchIdleCommand(f *benchFlags) *cobra.Command {
	var load bench.IdleLoad
	cmd := f.bench("idle", "Memory of idle connections",
		"Measures the server's resident memory for each connection that has said hello and sub and then only answers pings, beyond the server alone. "+
			"The smallest figure within --duration counts, before and after connecting, since the server gives memory back a while after it has become quiet.",
		func(ctx context.Context, e *bench.Env) error { return e.Idle(ctx, load) })
	benchFlag(cmd, "connections", "10000", "idle connections, one a user", number(&load.Connections, 1, 1_000_000))
	benchFlag(cmd, "duration", "60s", "how long memory is watched, before and after", duration(&load.Duration, time.Second, day))
	return cmd
}

func benchPullCommand(f *benchFlags) *cobra.Command {
	var load bench.PullLoad
	cmd := f.bench("pull", "Devices that were away catch up",
		"Stores --backlog messages and then lets devices that have none of them catch up, a few at a time: pull a page, ack it, pull the next. It is a closed loop.",
		func(ctx context.Context, e *bench.Env) error { return e.Pull(ctx, load) })
	benchFlag(cmd, "devices", "4", "devices that catch up at the same time", number(&load.Devices, 1, 10_000))
	benchFlag(cmd, "backlog", "10000", "events that each device lacks", number(&load.Backlog, 1, 100_000_000))
	benchFlag(cmd, "body", "150", "bytes of a message", number(&load.Body, 1, 60_000))
	benchFlag(cmd, "duration", "10s", "how long one device after the other begins", duration(&load.Duration, 100*time.Millisecond, 30*day))
	return cmd
}
