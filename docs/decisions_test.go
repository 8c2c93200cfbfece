package docs_test

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const dependencies = "docs/decisions/0009-dependencies.md"

// TestDecisionsHaveTheirShape wants each decision numbered once, listed in
// order, with its context, its choice and its price.
func TestDecisionsHaveTheirShape(t *testing.T) {
	report(t, decisionFaults(readPages(t, tree)))
}

// TestEveryDependencyHasItsReason compares the table with what go.mod calls
// direct and with what the code imports.
func TestEveryDependencyHasItsReason(t *testing.T) {
	text, err := fs.ReadFile(tree, "go.mod")
	if err != nil {
		t.Fatal(err)
	}
	report(t, dependencyFaults(string(text), readSources(t, tree), readPage(t, dependencies)))
}

var decisionName = regexp.MustCompile(`^docs/decisions/(\d{4})-[a-z0-9-]+\.md$`)

func decisionFaults(pages []page) []string {
	var faults []string
	var numbers []string
	index := page{}
	for _, p := range pages {
		if p.name == "docs/decisions/README.md" {
			index = p
		}
		if !strings.HasPrefix(p.name, "docs/decisions/") || p.name == index.name {
			continue
		}
		found := decisionName.FindStringSubmatch(p.name)
		if found == nil {
			faults = append(faults, p.name+" should be named NNNN-some-words.md")
			continue
		}
		number := found[1]
		if slices.Contains(numbers, number) {
			faults = append(faults, fmt.Sprintf("the decision %s is there twice", number))
		}
		numbers = append(numbers, number)
		if !strings.HasPrefix(p.text, "# "+number+": ") {
			faults = append(faults, fmt.Sprintf("%s should start with %q", p.name, "# "+number+": …"))
		}
		for _, part := range []string{"**Context.**", "**Choice.**", "**Price.**"} {
			if !strings.Contains(p.text, "\n"+part) {
				faults = append(faults, fmt.Sprintf("%s has no %s", p.name, part))
			}
		}
	}
	var listed []string
	for _, row := range index.rows("no.", "decision") {
		listed = append(listed, row[0])
		if !strings.Contains(row[1], "]("+row[0]+"-") {
			faults = append(faults, fmt.Sprintf("%s: the row of %s links to another decision", index.name, row[0]))
		}
	}
	slices.Sort(numbers)
	if !slices.Equal(listed, numbers) {
		faults = append(faults, fmt.Sprintf("docs/decisions/README.md lists %v, and there are %v", listed, numbers))
	}
	return faults
}

// dependencyFaults are modules that lack a reason, and reasons without a module.
func dependencyFaults(goMod string, all sources, p page) []string {
	listed := map[string]bool{}
	for _, row := range p.rows("module", "for", "why this one") {
		listed[strings.Trim(row[0], "`")] = len(row) == 3 && row[1] != "" && row[2] != ""
	}
	modules, direct := requirements(goMod)
	var faults []string
	used := map[string]bool{}
	for _, code := range all {
		for _, imported := range code.imports {
			module := ""
			for _, m := range modules { // the longest that fits
				if (imported == m || strings.HasPrefix(imported, m+"/")) && len(m) > len(module) {
					module = m
				}
			}
			if module != "" {
				used[module] = true
			}
		}
	}
	for _, m := range direct {
		used[m] = true
	}
	for m := range used {
		if !listed[m] {
			faults = append(faults, fmt.Sprintf("%s gives no reason for %s", p.name, m))
		}
	}
	for m := range listed {
		if !used[m] {
			faults = append(faults, fmt.Sprintf("%s has %s, which nothing imports", p.name, m))
		}
	}
	slices.Sort(faults)
	return faults
}

var requirement = regexp.MustCompile(`^(?:require )?\t?([a-z0-9][^ ]*\.[^ ]*/[^ ]+|[a-z0-9.-]+\.[a-z]+/[^ ]+) v[^ ]+(.*)$`)

// requirements are the modules of a go.mod, and those that it calls direct.
func requirements(goMod string) (all, direct []string) {
	for line := range strings.Lines(goMod) {
		found := requirement.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if found == nil {
			continue
		}
		all = append(all, found[1])
		if !strings.Contains(found[2], "// indirect") {
			direct = append(direct, found[1])
		}
	}
	return all, direct
}
