package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// readyCommand is the health check of images that have no shell and no curl.
func readyCommand(env streams) *cobra.Command {
	var within time.Duration
	cmd := &cobra.Command{
		Use:   "ready",
		Short: "Ask a running server whether it can serve",
		Long: "Asks GET /readyz of a running server, prints what it says, and ends with 0 if it can serve and with 1 if not. " +
			"It is for health checks where there is nothing but this binary, as in a container.",
		Example: "impart ready\n\n# a container's health check\nHEALTHCHECK CMD [\"impart\", \"ready\"]",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := newClient(cmd, env)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), within)
			defer cancel()
			return c.ready(ctx, cmd.OutOrStdout())
		},
	}
	cmd.Flags().String("url", "", "address of the server; IM_URL, or "+defaultURL)
	cmd.Flags().DurationVar(&within, "timeout", 3*time.Second, "how long the answer may take")
	return cmd
}

// ready asks whether the server can serve; an error says why not.
func (c *adminClient) ready(ctx context.Context, out io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("the answer of %s broke off: %w", c.url, err)
	}
	said := strings.TrimSpace(string(text))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", c.url, resp.Status, said)
	}
	_, err = fmt.Fprintln(out, said)
	return err
}
