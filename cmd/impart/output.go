package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"
)

// addJSON gives cmd the flag --json.
func addJSON(cmd *cobra.Command, field *bool) {
	cmd.Flags().BoolVar(field, "json", false, "print JSON")
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table lines up cells under their heads.
type table struct {
	tw *tabwriter.Writer
}

func newTable(w io.Writer, heads ...string) *table {
	t := &table{tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)}
	if len(heads) > 0 {
		t.row(heads...)
	}
	return t
}

func (t *table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = oneLine(cell)
	}
	fmt.Fprintln(t.tw, strings.TrimRight(strings.Join(cells, "\t"), "\t "))
}

func (t *table) end() error { return t.tw.Flush() }

// oneLine makes text from elsewhere safe for a terminal: nothing that moves the
// cursor, starts a line or turns the direction of writing gets through.
func oneLine(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}

// clock is a time in milliseconds as people read it, in local time with its
// offset from UTC (RFC 3339); "never" for 0.
func clock(ms int64) string {
	if ms == 0 {
		return "never"
	}
	return time.UnixMilli(ms).Format("2006-01-02T15:04:05.000Z07:00")
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
