package docs_test

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCommandsFindTheirTests holds every "go test" and "make" of the documents
// against the code: packages, names of tests and subtests, targets, variables.
func TestCommandsFindTheirTests(t *testing.T) {
	c := checker{readSources(t, tree), readMakefile(t)}
	report(t, commandFaults(c, readPages(t, tree)))
}

// TestEveryInvariantHasItsEvidence wants D1 to D18 explained and checked.
func TestEveryInvariantHasItsEvidence(t *testing.T) {
	report(t, evidenceFaults(readPage(t, "docs/guarantees.md")))
}

// invariants are D1 to D18.
const invariants = 18

// evidenceFaults are invariants that are not explained, or that no command of
// the table checks, and rows with another number of commands than one.
func evidenceFaults(p page) []string {
	var faults []string
	explained, checked := map[string]bool{}, map[string]bool{}
	for _, row := range p.rows("id", "what always holds", "how it is kept") {
		explained[row[0]] = len(row) == 3 && row[1] != "" && len(codes(row[2])) > 0
	}
	for _, row := range p.rows("id", "what is shown", "command") {
		commands := codes(row[len(row)-1])
		if len(row) != 3 || len(commands) != 1 || !isCommand(commands[0]) {
			faults = append(faults, fmt.Sprintf("%s: the row of %s should have one command", p.name, strings.Join(row, " | ")))
			continue
		}
		checked[row[0]] = true
	}
	for n := 1; n <= invariants; n++ {
		id := fmt.Sprint("D", n)
		if !explained[id] {
			faults = append(faults, fmt.Sprintf("%s does not say how %s is kept", p.name, id))
		}
		if !checked[id] {
			faults = append(faults, fmt.Sprintf("%s has no command that checks %s", p.name, id))
		}
	}
	return faults
}

// checker knows what commands can refer to.
type checker struct {
	sources sources
	make    makefile
}

// makefile is what the documents need of the Makefile.
type makefile struct {
	targets   map[string]string // with their recipes, variables filled in
	variables map[string]string
}

var (
	targetLine   = regexp.MustCompile(`^([a-z][a-z-]*):`)
	variableLine = regexp.MustCompile(`^([A-Z]+)\s*[:?]?=\s*(.*)$`)
	variable     = regexp.MustCompile(`\$\(([A-Z]+)\)`)
	assignment   = regexp.MustCompile(`^([A-Z][A-Z0-9_]*)=`)
)

func readMakefile(t *testing.T) makefile {
	t.Helper()
	text, err := fs.ReadFile(tree, "Makefile")
	if err != nil {
		t.Fatal(err)
	}
	return parseMakefile(string(text))
}

func parseMakefile(text string) makefile {
	m := makefile{map[string]string{}, map[string]string{}}
	target := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if found := targetLine.FindStringSubmatch(line); found != nil {
			target = found[1]
			m.targets[target] = ""
		} else if found := variableLine.FindStringSubmatch(line); found != nil {
			m.variables[found[1]] = strings.TrimSpace(found[2])
		} else if strings.HasPrefix(line, "\t") {
			m.targets[target] += line + "\n"
		}
	}
	for name, recipe := range m.targets {
		m.targets[name] = strings.ReplaceAll(variable.ReplaceAllStringFunc(recipe, func(ref string) string {
			return m.variables[strings.Trim(ref, "$()")]
		}), "$$", "$")
	}
	return m
}

// isCommand reports whether text is a command that can be checked.
func isCommand(text string) bool {
	for assignment.MatchString(text) {
		_, text, _ = strings.Cut(text, " ")
	}
	return strings.HasPrefix(text, "go test ") || strings.HasPrefix(text, "make ")
}

// commands are the ones that a page gives, in its text and in its shell blocks.
func (p page) commands() []string {
	var found []string
	for _, span := range p.spans() {
		if isCommand(span) {
			found = append(found, span)
		}
	}
	blocks, _ := p.split()
	for _, b := range blocks {
		if b.kind != "sh" {
			continue
		}
		for line := range strings.Lines(b.text) {
			line, _, _ = strings.Cut(line, " #")
			for command := range strings.SplitSeq(line, "&&") {
				if command = strings.TrimSpace(command); isCommand(command) {
					found = append(found, command)
				}
			}
		}
	}
	return found
}

func commandFaults(c checker, pages []page) []string {
	var faults []string
	for _, p := range pages {
		say := func(format string, args ...any) {
			faults = append(faults, p.name+": "+fmt.Sprintf(format, args...))
		}
		for _, command := range p.commands() {
			words := shellWords(command)
			for len(words) > 0 && assignment.MatchString(words[0]) {
				if name := assignment.FindStringSubmatch(words[0])[1]; !c.knows(name) {
					say("nothing reads the variable %s of %q", name, command)
				}
				words = words[1:]
			}
			if words[0] == "make" {
				c.makeFaults(command, words[1:], say)
			} else {
				c.goTestFaults(command, words[2:], say)
			}
		}
		for _, span := range p.spans() {
			if testName.MatchString(span) && !c.sources.test(span) {
				say("there is no %s", span)
			}
		}
	}
	return faults
}

// knows reports whether anything reads an environment variable of this name.
// The prefixes of our settings are in the code as whole names.
func (c checker) knows(name string) bool {
	return c.sources.literal(name) || strings.HasPrefix(name, "GO") || name == "CI" || name == "CGO_ENABLED"
}

func (c checker) makeFaults(command string, words []string, say func(string, ...any)) {
	for _, word := range words {
		if found := assignment.FindStringSubmatch(word); found != nil {
			if _, known := c.make.variables[found[1]]; !known {
				say("the Makefile has no variable %s for %q", found[1], command)
			}
			continue
		}
		recipe, known := c.make.targets[word]
		if !known {
			say("the Makefile has no target %s for %q", word, command)
			continue
		}
		for line := range strings.Lines(recipe) {
			before, test, runs := strings.Cut(line, "go test ")
			if !runs || strings.Contains(before, "echo") {
				continue
			}
			for name := range strings.FieldsSeq(before) {
				if found := assignment.FindStringSubmatch(name); found != nil && !c.knows(found[1]) {
					say("%q sets %s, which nothing reads", command, found[1])
				}
			}
			c.goTestFaults(command, shellWords(test), say)
		}
	}
}

// goTestFaults checks the arguments of one "go test".
func (c checker) goTestFaults(command string, words []string, say func(string, ...any)) {
	var tests, literals []string
	patterns := map[string]string{}
	given := false
	for i, word := range words {
		if strings.HasPrefix(word, "./") {
			given = true
			more, texts, found := c.sources.runnable(word)
			if !found {
				say("there is no package %s for %q", word, command)
				return
			}
			tests, literals = append(tests, more...), append(literals, texts...)
		}
		if slices.Contains([]string{"-run", "-bench", "-fuzz"}, word) && i+1 < len(words) {
			patterns[word] = words[i+1]
		}
	}
	if !given {
		tests, literals, _ = c.sources.runnable("./...")
	}
	// A suite that is run by a store stands elsewhere.
	if suite := c.sources["internal/conformance"]; suite != nil {
		literals = append(literals, suite.literals...)
	}
	for flag, pattern := range patterns {
		if pattern == "^$" || pattern == "." {
			continue
		}
		parts := strings.Split(pattern, "/")
		prefix := map[string]string{"-run": "Test", "-bench": "Benchmark", "-fuzz": "Fuzz"}[flag]
		if !matches(parts[0], tests, func(name string) bool { return strings.HasPrefix(name, prefix) }) {
			say("%q runs no test", command)
		}
		for _, part := range parts[1:] {
			if !matches(part, literals, func(string) bool { return true }) {
				say("%q names a subtest %s that is nowhere", command, part)
			}
		}
	}
}

func matches(pattern string, names []string, also func(string) bool) bool {
	re, err := regexp.Compile(pattern)
	return err == nil && slices.ContainsFunc(names, func(name string) bool {
		return also(name) && re.MatchString(strings.ReplaceAll(name, " ", "_"))
	})
}

// shellWords cuts a simple command into words; quotes hold words together.
func shellWords(command string) []string {
	var words []string
	var word strings.Builder
	quote, started := rune(0), false
	for _, r := range command {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, started = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if started {
				words = append(words, word.String())
				word.Reset()
				started = false
			}
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if started {
		words = append(words, word.String())
	}
	return words
}
