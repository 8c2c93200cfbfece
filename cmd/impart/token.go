package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/auth"
)

func tokenCommand(env streams) *cobra.Command {
	return family("token", "Tokens of users: make, revoke",
		tokenMakeCommand(env),
		leaf(env, "revoke", "Refuse every token of a user that was made before now", []string{"USER"}, func(cmd *cobra.Command, c *adminClient, args []string) error {
			return showUser(cmd, c, http.MethodPost, nil, "users", args[0], "revoke")
		}),
	)
}

// tokenMakeCommand asks no server: whoever holds the secret can make tokens.
func tokenMakeCommand(env streams) *cobra.Command {
	var ttl string
	cmd := &cobra.Command{
		Use:   "make USER",
		Short: "Make a token that signs a user in",
		Long: "Makes a token with the secret in IM_AUTH_HMAC_SECRET (or in the file of settings), on this machine, without a server. " +
			"With no IM_AUTH_… set it prints the token of the dev login. " +
			"With a public key or a JWKS URL it cannot: only your issuer holds the private key.",
		Example: "export IM_AUTH_HMAC_SECRET=…\nimpart admin token make u-ana --ttl 12h",
		Args:    exactArgs("USER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			token, err := makeToken(cmd, env, args[0], ttl)
			if err != nil {
				return err
			}
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]string{"user": args[0], "token": token})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	}
	cmd.Flags().StringVar(&ttl, "ttl", "24h", "how long it is good for, such as 12h or 30d")
	cmd.Flags().String("config", "", "file of settings in YAML; IM_CONFIG names it too")
	return cmd
}

func makeToken(cmd *cobra.Command, env streams, user, ttl string) (string, error) {
	if err := impart.CheckID("USER", user, impart.MaxID); err != nil {
		return "", usageError{errors.New(impart.AsError(err).Message)}
	}
	life, err := parseDuration(ttl)
	if err != nil {
		return "", usagef("--ttl: %q should be a time such as 12h or 30d", ttl)
	}
	l, err := loadRaw(cmd, env)
	if err != nil {
		return "", err
	}
	authConfig, err := l.config.Auth.verifierConfig(nil)
	if err != nil {
		return "", err
	}
	if err := authConfig.Validate(); err != nil {
		return "", usageError{err}
	}
	verifier, err := auth.New(cmd.Context(), authConfig)
	if err != nil {
		return "", err
	}
	defer verifier.Close()
	return verifier.Mint(impart.UserID(user), life)
}
