package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// verdict is the outcome of one check of the doctor.
type verdict string

// The verdicts. One fail means that a promise cannot be kept.
const (
	good verdict = "ok"
	warn verdict = "warn"
	fail verdict = "fail"
)

// finding is one line of the doctor's report.
type finding struct {
	Check   string  `json:"check"`
	Verdict verdict `json:"verdict"`
	Found   string  `json:"found"`
	Advice  string  `json:"advice,omitempty"` // what breaks, and what to do
}

// diagnosis is the doctor's report.
type diagnosis struct {
	Able     bool      `json:"able"`
	Findings []finding `json:"findings"`
}

func doctorCommand(env streams) *cobra.Command {
	var asJSON bool
	as := string(roleServe)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether this deployment is able to keep its promises",
		Long: "Checks what the promises rest on: that a message that was answered with \"sent\" survives a crash and a power cut, and that no retry is ever a second message. " +
			"It looks at the settings of the store, the folder, the kind and the room of its disk, the clock and the versions. " +
			"Ends with 1 if a promise cannot be kept. It changes nothing, and may run beside a server. " +
			"Give it the settings of the server, flags included: with others it looks at another deployment.",
		Example: "impart doctor\n\n# as the server will be started\nimpart doctor --config impart.yaml --listen :8080\n\n# a machine for gateways: can it reach the logic nodes?\nimpart doctor --role gateway --config gateway.yaml\n\n# in a script\nimpart doctor --json | jq .able",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := readRole(as)
			if err != nil {
				return usageError{err}
			}
			l, err := loadAs(cmd, env, r)
			if err != nil {
				return err
			}
			d := examine(cmd.Context(), l)
			if err := d.print(cmd, asJSON); err != nil {
				return err
			}
			if !d.Able {
				return errSilent
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&as, "role", as, "what this machine is to run: serve, gateway or logic")
	addSettings(cmd)
	addJSON(cmd, &asJSON)
	return cmd
}

func diagnose(findings []finding) diagnosis {
	d := diagnosis{Able: true, Findings: findings}
	for _, f := range findings {
		if f.Verdict == fail {
			d.Able = false
		}
	}
	return d
}

func (d diagnosis) print(cmd *cobra.Command, asJSON bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		return printJSON(out, d)
	}
	t := newTable(out)
	for _, f := range d.Findings {
		t.row(string(f.Verdict), f.Check, f.Found)
		if f.Advice != "" && f.Verdict != good {
			t.row("", "", "→ "+f.Advice)
		}
	}
	verdict := "\nable to keep the promises"
	if !d.Able {
		verdict = "\nNOT able to keep the promises; see the lines with fail"
	}
	err := t.end()
	fmt.Fprintln(out, verdict)
	return err
}

// judge makes a finding of an error: ok with found, or fail with advice.
func judge(check, found string, err error, advice string) finding {
	if err == nil {
		return finding{Check: check, Verdict: good, Found: cmp.Or(found, "fine")}
	}
	return finding{Check: check, Verdict: fail, Found: errors.Join(err).Error(), Advice: advice}
}
