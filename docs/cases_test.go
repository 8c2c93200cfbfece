package docs_test

import (
	"fmt"
	"regexp"
	"testing"
)

// TestEveryCaseHasItsCommand wants each of the cases told by a test, and those that
// change with the roles apart told for that shape too.
func TestEveryCaseHasItsCommand(t *testing.T) {
	report(t, caseFaults(readPage(t, "docs/cases.md")))
}

// cases is how many there are.
const cases = 45

// apartCases are those in which it matters that gateways and logic nodes die apart,
// or that there is a Redis.
var apartCases = []string{"5", "8", "14", "17", "19", "21", "29", "38", "42", "45"}

var apartRow = regexp.MustCompile(`\(apart\b.*\)$`)

func caseFaults(p page) []string {
	var faults []string
	told, apart := map[string]bool{}, map[string]bool{}
	for _, row := range p.rows("case", "what went wrong elsewhere", "command") {
		commands := codes(row[len(row)-1])
		if len(row) != 3 || len(commands) != 1 || !isCommand(commands[0]) {
			faults = append(faults, fmt.Sprintf("%s: case %s should have one command", p.name, row[0]))
			continue
		}
		told[row[0]] = true
		apart[row[0]] = apart[row[0]] || apartRow.MatchString(row[1])
	}
	for _, n := range apartCases {
		if !apart[n] {
			faults = append(faults, fmt.Sprintf("%s does not tell case %s with the roles apart", p.name, n))
		}
	}
	for n := 1; n <= cases; n++ {
		if !told[fmt.Sprint(n)] {
			faults = append(faults, fmt.Sprintf("%s does not tell case %d", p.name, n))
		}
	}
	return faults
}
