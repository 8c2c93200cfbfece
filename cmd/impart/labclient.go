package main

import (
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/app"
)

// labClientCommand is the application that the lab runs as a process of its own.
func labClientCommand(env streams) *cobra.Command {
	var cfg app.Config
	var user, device string
	cmd := &cobra.Command{
		Use:    "client",
		Short:  "An application on the Go SDK that follows orders on standard input",
		Hidden: true,
		Args:   exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.User, cfg.Device = impart.UserID(user), impart.DeviceID(device)
			cfg.Log = slog.New(slog.NewTextHandler(env.stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
			return app.Run(cmd.Context(), cfg, cmd.InOrStdin(), env.stdout)
		},
	}
	cmd.Flags().StringVar(&cfg.URL, "url", "", "address of the server")
	cmd.Flags().StringVar(&user, "user", "", "user")
	cmd.Flags().StringVar(&device, "device", "d-1", "device")
	cmd.Flags().StringVar(&cfg.Store, "store", "", "path of the local store; none keeps it in memory")
	cmd.Flags().DurationVar(&cfg.ReplyTimeout, "reply-timeout", 2*time.Second, "how long a reply is waited for")
	cmd.Flags().DurationVar(&cfg.MinBackoff, "min-backoff", 50*time.Millisecond, "first limit of the wait before a reconnect")
	cmd.Flags().DurationVar(&cfg.MaxBackoff, "max-backoff", time.Second, "last limit of the wait before a reconnect")
	return cmd
}
