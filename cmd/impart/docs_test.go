package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the settings table of docs/operations.md anew")

const (
	tableBegin = "<!-- settings:begin (written by `make docs`; a test compares it with the code) -->\n"
	tableEnd   = "<!-- settings:end -->"
)

// settingsTable is the table of all settings as the documentation has it.
func settingsTable() string {
	var b strings.Builder
	b.WriteString("| setting | default | meaning |\n| --- | --- | --- |\n")
	for _, s := range settings(&config{}) {
		def := "none"
		if s.def != "" {
			def = "`" + s.def + "`"
		}
		help := strings.ToUpper(s.help[:1]) + s.help[1:]
		if s.value.kind == "number" || s.value.kind == "ms" {
			help += " (" + s.value.want + ")"
		}
		if s.secret {
			help += ". Secret: better a variable than a flag, which other users of the machine can see"
		}
		if s.value.kind == addressKind {
			help += ". It may hold a password, which is never printed: better a variable than a flag"
		}
		b.WriteString("| `" + s.name + "` | " + def + " | " + strings.ReplaceAll(help, "|", `\|`) + " |\n")
	}
	return b.String()
}

func TestOperationsTable(t *testing.T) {
	name := filepath.Join("..", "..", "docs", "operations.md")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), tableBegin)
	table, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		t.Fatalf("%s has lost the marks around its settings table", name)
	}
	if *update {
		if err := os.WriteFile(name, []byte(before+tableBegin+settingsTable()+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != settingsTable() {
		t.Errorf("%s has another table than the code: make docs", name)
	}
}
