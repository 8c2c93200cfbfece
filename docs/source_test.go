package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pkg is what the documents speak of in one folder of Go files.
type pkg struct {
	tests    []string            // functions that go test can run by name
	literals []string            // string literals, for the names of subtests
	values   map[string]ast.Expr // constants, and defaults by the name of their field
	cases    map[string][]string // by function: the string literals of its switch cases
	files    map[string]*ast.File
	imports  []string
}

// sources are the packages of a tree, by folder.
type sources map[string]*pkg

// repository is what [readSources] found in the repository: it is read once.
var repository sources

// readSources parses every Go file of a tree.
func readSources(t *testing.T, from fs.FS) sources {
	t.Helper()
	if from != tree {
		return parseSources(t, from)
	}
	if repository == nil {
		repository = parseSources(t, tree)
	}
	return repository
}

func parseSources(t *testing.T, tree fs.FS) sources {
	t.Helper()
	all := sources{}
	walk(t, tree, ".go", func(name string, text []byte) {
		folder := path.Dir(name)
		if folder == "tools" || strings.HasPrefix(folder, "tools/") {
			return // another module
		}
		if all[folder] == nil {
			all[folder] = &pkg{values: map[string]ast.Expr{}, cases: map[string][]string{}, files: map[string]*ast.File{}}
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all[folder].add(name, file)
	})
	return all
}

func (p *pkg) add(name string, file *ast.File) {
	p.files[name] = file
	test := strings.HasSuffix(name, "_test.go")
	for _, spec := range file.Imports {
		if imported, err := strconv.Unquote(spec.Path.Value); err == nil {
			p.imports = append(p.imports, imported)
		}
	}
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if test && fn.Recv == nil && testName.MatchString(fn.Name.Name) {
			p.tests = append(p.tests, fn.Name.Name)
		}
		if !test {
			p.cases[fn.Name.Name] = append(p.cases[fn.Name.Name], caseTexts(fn)...)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
				p.literals = append(p.literals, text)
			}
		case *ast.ValueSpec:
			for i := range n.Names {
				if i < len(n.Values) && !test {
					p.values[n.Names[i].Name] = n.Values[i]
				}
			}
		case *ast.CallExpr: // defaultTo(&c.Field, value)
			if fn, ok := n.Fun.(*ast.Ident); ok && fn.Name == "defaultTo" && len(n.Args) == 2 {
				if field := fieldOf(n.Args[0]); field != "" {
					p.values[field] = n.Args[1]
				}
			}
		}
		return true
	})
}

// fieldOf is Field of &c.Field.
func fieldOf(e ast.Expr) string {
	if address, ok := e.(*ast.UnaryExpr); ok {
		if sel, ok := address.X.(*ast.SelectorExpr); ok {
			return sel.Sel.Name
		}
	}
	return ""
}

// caseTexts are the string literals of a function's switch cases.
func caseTexts(fn *ast.FuncDecl) []string {
	var texts []string
	ast.Inspect(fn, func(n ast.Node) bool {
		if clause, ok := n.(*ast.CaseClause); ok {
			for _, e := range clause.List {
				if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil {
						texts = append(texts, text)
					}
				}
			}
		}
		return true
	})
	return texts
}

// durations are the units of package time, in nanoseconds.
var durations = map[string]int64{
	"Millisecond": 1e6, "Second": 1e9, "Minute": 60e9, "Hour": 3600e9,
}

// number is the value of a constant or default of a package.
func (all sources) number(folder, name string) (int64, error) {
	p := all[folder]
	if p == nil || p.values[name] == nil {
		return 0, fmt.Errorf("%s has no constant or default %s", folder, name)
	}
	return p.eval(p.values[name])
}

func (p *pkg) eval(e ast.Expr) (int64, error) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return p.eval(e.X)
	case *ast.BasicLit:
		return strconv.ParseInt(e.Value, 0, 64)
	case *ast.Ident:
		if p.values[e.Name] == nil {
			return 0, fmt.Errorf("%s is no constant", e.Name)
		}
		return p.eval(p.values[e.Name])
	case *ast.SelectorExpr:
		if unit, ok := durations[e.Sel.Name]; ok {
			return unit, nil
		}
		return 0, fmt.Errorf("%s is no unit of time", e.Sel.Name)
	case *ast.BinaryExpr:
		x, err := p.eval(e.X)
		if err != nil {
			return 0, err
		}
		y, err := p.eval(e.Y)
		if err != nil {
			return 0, err
		}
		switch e.Op {
		case token.MUL:
			return x * y, nil
		case token.ADD:
			return x + y, nil
		case token.SUB:
			return x - y, nil
		case token.SHL:
			return x << uint(y), nil
		}
	}
	return 0, fmt.Errorf("%T is more than this test can work out", e)
}

// runnable are the test functions of the folders that a pattern of go test
// means: ./a, ./a/..., ./...
func (all sources) runnable(pattern string) (tests, literals []string, found bool) {
	folder, below := strings.CutSuffix(path.Clean(pattern), "...")
	folder = path.Clean(folder)
	for name, p := range all {
		if name == folder || below && (folder == "." || strings.HasPrefix(name, folder+"/")) {
			found = true
			tests = append(tests, p.tests...)
			literals = append(literals, p.literals...)
		}
	}
	return tests, literals, found
}

// test reports whether there is a test function of this name.
func (all sources) test(name string) bool {
	for _, p := range all {
		if slices.Contains(p.tests, name) {
			return true
		}
	}
	return false
}

// literal reports whether any code holds this string.
func (all sources) literal(text string) bool {
	for _, p := range all {
		if slices.Contains(p.literals, text) {
			return true
		}
	}
	return false
}
