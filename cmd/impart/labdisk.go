package main

import (
	"github.com/spf13/cobra"

	"github.com/impart-im/impart/internal/lab/crashfs"
)

// labDiskCommand is the process of a disk that can lose power.
func labDiskCommand(env streams) *cobra.Command {
	return &cobra.Command{
		Use:    "disk BACKING MOUNT",
		Short:  "A disk that can lose power, which follows orders on standard input",
		Hidden: true,
		Args:   exactArgs("BACKING", "MOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if crashfs.Daemon(args, cmd.InOrStdin(), env.stdout) != 0 {
				return errSilent
			}
			return nil
		},
	}
}
