package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// shownSetting is one line of `impart config --json`.
type shownSetting struct {
	Name    string `json:"name"`
	Flag    string `json:"flag"`
	Key     string `json:"key"`
	Value   string `json:"value"`
	Default string `json:"default"`
	From    string `json:"from"`
	Secret  bool   `json:"secret,omitempty"`
}

func configCommand(env streams) *cobra.Command {
	var asJSON bool
	var as string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print every setting with its value and where that came from",
		Long: "Prints the settings that `impart serve` would start with, given the same flags, variables and file, and where each value came from. " +
			"With --role it prints those that a process of this role has a use for, and checks them as that would. " +
			"Flags win over variables, variables over the file. Secrets are not printed. " +
			"Ends with 2 if a value is wrong, naming every fault.",
		Example: "# what would this file do?\nimpart config --config impart.yaml\n\n# and to a gateway?\nimpart config --role gateway --config gateway.yaml\n\n# only what is not a default\nimpart config | grep -v default",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := roleAll
			if as != "" {
				var err error
				if r, err = readRole(as); err != nil {
					return usageError{err}
				}
			}
			l, err := loadRaw(cmd, env)
			if err != nil {
				return err
			}
			l.config.role = r
			if err := l.print(cmd, asJSON); err != nil {
				return err
			}
			if faults := l.config.validate(); len(faults) > 0 {
				return usageError{errors.Join(faults...)}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&as, "role", "", "only the settings of one role: serve, gateway or logic")
	addSettings(cmd)
	addJSON(cmd, &asJSON)
	return cmd
}

func (l *loaded) print(cmd *cobra.Command, asJSON bool) error {
	if asJSON {
		shown := make([]shownSetting, 0, len(l.values))
		for _, e := range l.used() {
			shown = append(shown, shownSetting{e.name, "--" + e.flag(), e.key(), e.shown(), e.def, e.from, e.secret})
		}
		return printJSON(cmd.OutOrStdout(), shown)
	}
	t := newTable(cmd.OutOrStdout(), "SETTING", "VALUE", "FROM")
	for _, e := range l.used() {
		value := e.shown()
		if value == "" {
			value = "-"
		}
		t.row(e.name, value, e.from)
	}
	for _, name := range l.unused() {
		fmt.Fprintf(cmd.ErrOrStderr(), "impart: %s is set, and has no effect on this role\n", name)
	}
	for _, name := range l.unknown {
		fmt.Fprintf(cmd.ErrOrStderr(), "impart: %s\n", unknownNote(name))
	}
	return t.end()
}

// unknownNote tells of a variable that has no effect.
func unknownNote(name string) string {
	var names []string
	for _, s := range settings(&config{}) {
		names = append(names, s.name)
	}
	note := "the variable " + oneLine(name) + " is no setting and has no effect"
	if near := suggest(name, names); near != "" {
		note += "; did you mean " + near + "?"
	}
	return note
}
