package docs_test

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// TestEveryPackageIsExplained wants each folder with code in the table of packages.
func TestEveryPackageIsExplained(t *testing.T) {
	report(t, packageFaults(readSources(t, tree), readPage(t, "docs/architecture.md")))
}

// TestEveryPlantedBugIsExplained compares the table with internal/fault.
func TestEveryPlantedBugIsExplained(t *testing.T) {
	report(t, bugFaults(readSources(t, tree)["internal/fault"], readPage(t, "docs/testing.md")))
}

func packageFaults(all sources, p page) []string {
	var named []string
	for _, row := range p.rows("package", "what it is", "what it may lose") {
		named = append(named, codes(row[0])...)
	}
	var faults []string
	for folder, code := range all {
		hasCode, explained := false, folder == "."
		for name := range code.files {
			hasCode = hasCode || !strings.HasSuffix(name, "_test.go")
		}
		for _, name := range named {
			whole, isFolder := strings.CutSuffix(name, "/")
			explained = explained || isFolder && (folder == whole || whole == "test" && strings.HasPrefix(folder, "test/"))
		}
		if hasCode && !explained {
			faults = append(faults, fmt.Sprintf("%s does not say what %s is for", p.name, folder))
		}
	}
	return faults
}

var bugOf = regexp.MustCompile(`^// (D\d+): `)

// bugFaults are bugs that the table lacks or gives to another invariant than
// the comment at their constant does.
func bugFaults(code *pkg, p page) []string {
	told := map[string]string{}
	for _, row := range p.rows("`IM_BUG`", "breaks", "what goes wrong") {
		told[strings.Trim(row[0], "`")] = row[1]
	}
	var faults []string
	bugs := 0
	for _, file := range code.files {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || spec.Comment == nil || len(spec.Values) != 1 {
				return true
			}
			lit, isText := spec.Values[0].(*ast.BasicLit)
			found := bugOf.FindStringSubmatch(spec.Comment.List[0].Text)
			if !isText || found == nil {
				return true
			}
			bugs++
			bug := strings.Trim(lit.Value, `"`)
			if told[bug] != found[1] {
				faults = append(faults, fmt.Sprintf("%s: %s breaks %q and should be %s", p.name, bug, told[bug], found[1]))
			}
			delete(told, bug)
			return true
		})
	}
	if bugs == 0 {
		faults = append(faults, "internal/fault has no bugs with their invariants: mend this test")
	}
	for bug := range told {
		faults = append(faults, fmt.Sprintf("%s: no bug %s can be planted", p.name, bug))
	}
	return faults
}
