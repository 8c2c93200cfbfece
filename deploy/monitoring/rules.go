package monitoring

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// runbook is where the paragraph of an alert is.
const runbook = "https://github.com/impart-im/impart/blob/main/docs/deploy.md#"

// Rules is the rules file for Prometheus, checked against the list of metrics.
func Rules(all []Metric) ([]byte, error) {
	c := newCatalog(all)
	var out bytes.Buffer
	out.WriteString("# Written by `make docs` from deploy/monitoring/alerts.go. What to do about each is in docs/deploy.md.\ngroups:\n")
	var errs []error
	for _, g := range alerts {
		fmt.Fprintf(&out, "  - name: %s\n    rules:\n", g.name)
		for _, a := range g.alerts {
			errs = append(errs, c.check(a.Expr))
			fmt.Fprintf(&out, "      - alert: %s\n        expr: %s\n", a.Name, quoted(a.Expr))
			if a.For != "" {
				fmt.Fprintf(&out, "        for: %s\n", a.For)
			}
			fmt.Fprintf(&out, "        labels:\n          severity: %s\n        annotations:\n          summary: %s\n          runbook_url: %s\n",
				a.Severity, quoted(a.Summary), runbook+strings.ToLower(a.Name))
		}
	}
	return out.Bytes(), errors.Join(errs...)
}

// quoted is text as a YAML scalar in single quotes.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
