package main

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed *.pml
var files embed.FS

// model is one Promela file. Its first comment lists its macros.
type model struct {
	name   string
	text   string
	guards []macro
	probes []macro
	faults int // things that may go wrong in one run
}

// macro is what -D takes out of a model or, for a probe, puts in.
type macro struct {
	name   string
	breaks string // the invariant that must break; of a probe, its own name
	what   string
}

// probePrefix starts the name of an assertion that something never happens,
// which must be refuted.
const probePrefix = "PROBE_"

var (
	guardLine = regexp.MustCompile(`^ \* ([A-Z_]+) +(D\d+) +(\S.*)$`)
	probeLine = regexp.MustCompile(`^ \* (` + probePrefix + `[A-Z_]+) +(\S.*)$`)
	ifLine    = regexp.MustCompile(`^#ifn?def ([A-Z_]+)$`)
	faultLine = regexp.MustCompile(`^#define FAULTS (\d+)$`)
	checkLine = regexp.MustCompile(`assert\(.*/\* (D\d+|` + probePrefix + `[A-Z_]+) \*/`)
)

// readModels reads every model of a folder. A model whose list of macros is not
// that of its code is an error.
func readModels(folder fs.FS) ([]model, error) {
	names, err := fs.Glob(folder, "*.pml")
	if err != nil {
		return nil, err
	}
	var models []model
	for _, name := range names {
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		m, err := parseModel(strings.TrimSuffix(name, ".pml"), string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		models = append(models, m)
	}
	return models, nil
}

func parseModel(name, text string) (model, error) {
	m := model{name: name, text: text}
	used := map[string]bool{}
	checks := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if found := guardLine.FindStringSubmatch(line); found != nil {
			m.guards = append(m.guards, macro{found[1], found[2], found[3]})
		} else if found := probeLine.FindStringSubmatch(line); found != nil {
			m.probes = append(m.probes, macro{found[1], found[1], found[2]})
		}
		if found := ifLine.FindStringSubmatch(line); found != nil && found[1] != "FAULTS" {
			used[found[1]] = true
		}
		if found := faultLine.FindStringSubmatch(line); found != nil {
			m.faults, _ = strconv.Atoi(found[1])
		}
		if tag := checkOf(line); tag != "" {
			checks[tag] = true
		} else if strings.Contains(line, "assert(") {
			return m, fmt.Errorf("an assertion does not say in /* */ what it is about: %s", strings.TrimSpace(line))
		}
	}
	if m.faults == 0 {
		return m, fmt.Errorf("FAULTS has no default")
	}
	return m, m.check(used, checks)
}

// check holds the list of macros against those that the code has.
func (m *model) check(used, checks map[string]bool) error {
	listed := slices.Concat(m.guards, m.probes)
	for i, g := range listed {
		if slices.ContainsFunc(listed[:i], func(o macro) bool { return o.name == g.name }) {
			return fmt.Errorf("%s is listed twice", g.name)
		}
		if !used[g.name] {
			return fmt.Errorf("%s is listed, and changes nothing", g.name)
		}
		if !checks[g.breaks] {
			return fmt.Errorf("%s should break %s, which nothing asserts", g.name, g.breaks)
		}
		delete(used, g.name)
	}
	if len(used) > 0 {
		return fmt.Errorf("%s is not in the list at the top", strings.Join(slices.Sorted(maps.Keys(used)), ", "))
	}
	return nil
}

// checkOf is what an assertion in this line is about: an invariant, a probe, or
// nothing.
func checkOf(line string) string {
	if found := checkLine.FindStringSubmatch(line); found != nil {
		return found[1]
	}
	return ""
}
