// Package report shows checks and results of the lab: as tables of text, as JSON
// and as one HTML page without anything from elsewhere. What a server or client
// has written is never trusted: it cannot become markup, nor move a cursor.
package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/impart-im/impart/internal/lab"
)

// listed is a check as `impart lab list --json` shows it.
type listed struct {
	ID        string       `json:"id"`
	Invariant string       `json:"invariant"`
	On        string       `json:"on"`
	What      string       `json:"what"`
	Expect    string       `json:"expect"`
	Short     bool         `json:"short"`
	Twins     []listedTwin `json:"twins"`
}

type listedTwin struct {
	Sabotage string `json:"sabotage"`
	What     string `json:"what"`
}

// List shows what checks there are.
func List(w io.Writer, checks []lab.Check, asJSON bool) error {
	if asJSON {
		all := make([]listed, len(checks))
		for i, c := range checks {
			all[i] = listed{c.ID, c.Invariant, c.On(), c.What, c.Expect, c.Short, nil}
			for _, s := range c.Twins {
				all[i].Twins = append(all[i].Twins, listedTwin{s.Name, s.What})
			}
		}
		text, err := json.Marshal(all, jsontext.WithIndent("  "))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(w, string(text))
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, c := range checks {
		short := ""
		if c.Short {
			short = "  (quick set)"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s%s\n", c.ID, c.Invariant, c.On(), c.What, short)
		fmt.Fprintf(tw, "\t\t\texpect: %s\n", c.Expect)
		for _, s := range c.Twins {
			fmt.Fprintf(tw, "\t\t\ttwin %s: %s\n", s.Name, s.What)
		}
	}
	return tw.Flush()
}

// Table shows a result as text.
func Table(w io.Writer, r *lab.Result) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "VERDICT\tCHECK\tHOLDS\tTWINS\tSECONDS\tOBSERVED")
	for i := range r.Checks {
		c := &r.Checks[i]
		text := c.Observed
		if c.Why != "" {
			text = c.Why
		}
		seconds := (time.Duration(c.MS) * time.Millisecond).Seconds()
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%.1f\t%s\n", c.Verdict, plain(c.ID), plain(c.Invariant), twins(c.Twins), seconds, plain(text))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d PASS, %d FAIL, %d NOT_RUN · run %s · %s · %s\n",
		r.Count(lab.Pass), r.Count(lab.Fail), r.Count(lab.NotRun), plain(r.Run), plain(r.Version), plain(r.Store))
	return err
}

// twins says how many of them were caught.
func twins(all []lab.TwinResult) string {
	caught := 0
	for _, t := range all {
		if t.Caught {
			caught++
		}
	}
	return fmt.Sprintf("%d/%d", caught, len(all))
}

// plain makes text from elsewhere safe for a terminal and for one line.
func plain(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}
