package docs_test

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

func TestLinksLeadSomewhere(t *testing.T) {
	report(t, linkFaults(tree, readPages(t, tree)))
}

func TestFilesThatAreNamedAreThere(t *testing.T) {
	report(t, pathFaults(tree, readPages(t, tree)))
}

// TestTheIndexListsEveryPage looks at both indexes.
func TestTheIndexListsEveryPage(t *testing.T) {
	pages := readPages(t, tree)
	report(t, indexFaults("docs", pages))
	report(t, indexFaults("docs/decisions", pages))
}

var link = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)

// links are the targets of a page's links.
func (p page) links() []string {
	_, prose := p.split()
	var targets []string
	for _, found := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(prose, "code"), -1) {
		targets = append(targets, found[1])
	}
	return targets
}

// linkFaults are links to files and headings that are not there.
func linkFaults(tree fs.FS, pages []page) []string {
	anchors := map[string][]string{}
	for _, p := range pages {
		anchors[p.name] = p.anchors()
	}
	var faults []string
	for _, p := range pages {
		for _, target := range p.links() {
			u, err := url.Parse(target)
			if err != nil {
				faults = append(faults, fmt.Sprintf("%s: %s is no address", p.name, target))
				continue
			}
			if u.IsAbs() {
				continue // what is elsewhere is not ours to keep
			}
			file := p.name
			if u.Path != "" {
				file = path.Join(path.Dir(p.name), u.Path)
			}
			if _, err := fs.Stat(tree, file); err != nil {
				faults = append(faults, fmt.Sprintf("%s: the link to %s leads nowhere", p.name, target))
				continue
			}
			if u.Fragment != "" && !slices.Contains(anchors[file], u.Fragment) {
				faults = append(faults, fmt.Sprintf("%s: %s has no heading for #%s", p.name, file, u.Fragment))
			}
		}
	}
	return faults
}

// anchors are the names under which a page's headings can be linked to.
func (p page) anchors() []string {
	_, prose := p.split()
	seen := map[string]int{}
	var anchors []string
	for line := range strings.Lines(prose) {
		level := len(line) - len(strings.TrimLeft(line, "#"))
		if level == 0 || level > 6 || line[level] != ' ' {
			continue
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ', r == '-':
				return '-'
			case r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(line[level:]))
		if n := seen[anchor]; n > 0 {
			anchors = append(anchors, fmt.Sprintf("%s-%d", anchor, n))
		} else {
			anchors = append(anchors, anchor)
		}
		seen[anchor]++
	}
	return anchors
}

var (
	pathLike = regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*/?$`)
	ourRoots = []string{".ci", "cmd", "docs", "internal", "scripts", "test", "tools", "web", "wire"}
	testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]\w*$`)
)

// pathFaults are files and folders that a page names and that are not there.
// A name without a folder counts if it ends like a source.
func pathFaults(tree fs.FS, pages []page) []string {
	var faults []string
	for _, p := range pages {
		for _, span := range p.spans() {
			first, _, folder := strings.Cut(span, "/")
			source := slices.Contains([]string{".go", ".md", ".sql"}, path.Ext(span))
			if !pathLike.MatchString(span) || !(folder && slices.Contains(ourRoots, first)) && !(source && !folder) {
				continue
			}
			name := strings.TrimSuffix(span, "/")
			if _, err := fs.Stat(tree, name); err == nil {
				continue
			}
			if _, err := fs.Stat(tree, path.Join(path.Dir(p.name), name)); err == nil {
				continue
			}
			faults = append(faults, fmt.Sprintf("%s: there is no %s", p.name, span))
		}
	}
	return faults
}

// indexFaults are pages of a folder that its README does not link to.
func indexFaults(folder string, pages []page) []string {
	var faults []string
	for _, p := range pages {
		if p.name != folder+"/README.md" {
			continue
		}
		linked := p.links()
		for _, other := range pages {
			name, inside := strings.CutPrefix(other.name, folder+"/")
			if inside && name != "README.md" && !strings.Contains(name, "/") && !slices.Contains(linked, name) {
				faults = append(faults, fmt.Sprintf("%s does not list %s", p.name, name))
			}
		}
		return faults
	}
	return []string{folder + " has no README.md"}
}
