// Package docs_test keeps the documents true: what they link to is there, the
// commands they give find tests, their examples are frames, and their tables
// and numbers are those of the code. Each check returns its faults, and
// [TestChecksFindFaults] shows that each can find some.
package docs_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository, seen from this folder.
const root = ".."

// tree is the repository.
var tree = os.DirFS(root)

// notOurs are folders without sources or pages of this repository.
var notOurs = []string{"node_modules", "testdata", "impart-data", "bin"}

// page is one document.
type page struct {
	name string // slash-separated, under the root
	text string
}

// readPages reads every Markdown file of a tree.
func readPages(t *testing.T, tree fs.FS) []page {
	t.Helper()
	var pages []page
	walk(t, tree, ".md", func(name string, text []byte) {
		pages = append(pages, page{name, string(text)})
	})
	if len(pages) == 0 {
		t.Fatal("no page found")
	}
	return pages
}

// readPage reads one document of the repository.
func readPage(t *testing.T, name string) page {
	t.Helper()
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		t.Fatal(err)
	}
	return page{name, string(text)}
}

// walk calls each for every file with this ending.
func walk(t *testing.T, tree fs.FS, ending string, each func(name string, text []byte)) {
	t.Helper()
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && (strings.HasPrefix(entry.Name(), ".") || slices.Contains(notOurs, entry.Name())) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ending {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err == nil {
			each(name, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// block is a fenced block of a page.
type block struct {
	kind string // "sh", "json" …
	text string
}

// split takes a page apart: its fenced blocks, and the text around them.
func (p page) split() (blocks []block, prose string) {
	var around strings.Builder
	var inside *block
	for line := range strings.Lines(p.text) {
		fence, opens := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case opens && inside == nil:
			inside = &block{kind: fence}
		case opens:
			blocks = append(blocks, *inside)
			inside = nil
		case inside != nil:
			inside.text += line
		default:
			around.WriteString(line)
		}
	}
	return blocks, around.String()
}

var codeSpan = regexp.MustCompile("`([^`\n]+)`")

// spans are the pieces of a page that stand between backticks.
func (p page) spans() []string {
	_, prose := p.split()
	var spans []string
	for _, found := range codeSpan.FindAllStringSubmatch(prose, -1) {
		spans = append(spans, found[1])
	}
	return spans
}

// rows are the rows of the table whose first row has these cells, and nil
// without such a table.
func (p page) rows(header ...string) [][]string {
	var rows [][]string
	inside := false
	for line := range strings.Lines(p.text) {
		cells := tableCells(line)
		switch {
		case !inside:
			inside = slices.Equal(cells, header)
		case cells == nil:
			return rows
		case strings.Trim(strings.Join(cells, ""), "- :") != "":
			rows = append(rows, cells)
		}
	}
	return rows
}

// tableCells cuts a line of a table at its bars; nil for another line.
func tableCells(line string) []string {
	line = strings.TrimSpace(line)
	if len(line) < 2 || line[0] != '|' || line[len(line)-1] != '|' {
		return nil
	}
	line = strings.ReplaceAll(line[1:len(line)-1], `\|`, "\x00")
	cells := strings.Split(line, "|")
	for i := range cells {
		cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), "\x00", "|")
	}
	return cells
}

// codes are the pieces between backticks of a cell.
func codes(cell string) []string {
	var found []string
	for _, span := range codeSpan.FindAllStringSubmatch(cell, -1) {
		found = append(found, span[1])
	}
	return found
}

// report turns faults into errors.
func report(t *testing.T, faults []string) {
	t.Helper()
	for _, fault := range faults {
		t.Error(fault)
	}
}
