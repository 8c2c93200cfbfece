package docs_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// TestEveryCaseHasItsCommand wants each of the cases told by a test, or named
// among those that wait.
func TestEveryCaseHasItsCommand(t *testing.T) {
	report(t, caseFaults(readPage(t, "docs/cases.md")))
}

// cases is how many there are.
const cases = 45

var waitingCase = regexp.MustCompile(`(\d+) \(`)

func caseFaults(p page) []string {
	var faults []string
	told := map[string]bool{}
	for _, row := range p.rows("case", "what went wrong elsewhere", "command") {
		commands := codes(row[len(row)-1])
		if len(row) != 3 || len(commands) != 1 || !isCommand(commands[0]) {
			faults = append(faults, fmt.Sprintf("%s: case %s should have one command", p.name, row[0]))
			continue
		}
		told[row[0]] = true
	}
	_, waiting, _ := strings.Cut(p.text, "\nOne waits")
	for _, found := range waitingCase.FindAllStringSubmatch(waiting, -1) {
		if told[found[1]] {
			faults = append(faults, fmt.Sprintf("%s: case %s waits, and has a command", p.name, found[1]))
		}
		told[found[1]] = true
	}
	for n := 1; n <= cases; n++ {
		if !told[fmt.Sprint(n)] {
			faults = append(faults, fmt.Sprintf("%s does not tell case %d", p.name, n))
		}
	}
	return faults
}
