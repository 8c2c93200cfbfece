package impart_test

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/impart-im/impart"

// mayImport says which of our packages the code of each package may import, by
// paths under the module; "." is the root. Fault points may stand anywhere.
// A package that is not listed is a fault: its place has to be decided.
var mayImport = map[string][]string{
	".":                       {},
	"wire":                    {"."},
	"client":                  {".", "wire"},
	"internal/chat":           {".", "client"},
	"internal/fault":          {},
	"internal/store":          {"."},
	"internal/bus":            {"."},
	"internal/bus/pgbus":      {".", "internal/bus", "internal/pgdial"},
	"internal/pgdial":         {},
	"internal/pending":        {"."},
	"internal/redis":          {".", "internal/bus", "internal/dedup", "internal/pending"},
	"internal/dedup":          {"."},
	"internal/auth":           {"."},
	"internal/store/sqlstore": {".", "internal/store", "internal/bus", "internal/pgdial"},
	"internal/store/memstore": {".", "internal/store"},
	"internal/conformance":    {".", "internal/store", "internal/store/memstore", "internal/bus", "internal/pending"}, // memstore is the model
	"internal/logic":          {".", "internal/store", "internal/bus", "internal/dedup"},
	"internal/gateway":        {".", "wire", "internal/bus", "internal/pending"},
	"internal/rpc":            {".", "internal/rpc/impartpb"},
	"internal/rpc/impartpb":   {}, // generated
	"internal/api":            {".", "wire", "internal/auth"},
	"internal/bench":          {".", "wire", "internal/store"},
	"internal/lab/crashfs":    {},
	"internal/lab/link":       {},
	"internal/lab/authority":  {},
	"internal/lab/pipe":       {},
	"internal/lab/process":    {},
	"internal/lab/postgres":   {"internal/lab/process"},
	"internal/lab/redis":      {"internal/lab/process"},
	"internal/lab/mysql":      {"internal/lab/process"},
	"web":                     {},
	// The lab sees servers only from outside: frames, rows, metrics and exit codes.
	"internal/lab/app":    {".", "client"},
	"internal/lab":        {".", "wire", "internal/lab/app", "internal/lab/crashfs", "internal/lab/link", "internal/lab/mysql", "internal/lab/postgres", "internal/lab/process", "internal/lab/probe", "internal/lab/redis", "internal/lab/rows"},
	"internal/lab/rows":   {"."},
	"internal/lab/hop":    {".", "internal/lab/pipe", "internal/rpc"},
	"internal/lab/world":  {".", "internal/bus", "internal/gateway", "internal/lab/hop", "internal/lab/pipe", "internal/logic", "internal/pending", "internal/store/memstore"},
	"internal/lab/probe":  {".", "wire"},
	"internal/lab/report": {"internal/lab"},
	// The campaign judges by itself; its simulation is the server in one process.
	"internal/lab/campaign/history":   {"."},
	"internal/lab/campaign":           {".", "client", "internal/lab/campaign/history"},
	"internal/lab/campaign/processes": {".", "wire", "client", "internal/lab/campaign", "internal/lab/campaign/history", "internal/lab/link", "internal/lab/mysql", "internal/lab/postgres", "internal/lab/probe", "internal/lab/process", "internal/lab/redis"},
	"internal/lab/campaign/simulate":  {".", "wire", "client", "internal/gateway", "internal/lab/campaign", "internal/lab/campaign/history", "internal/lab/world", "internal/store/memstore"},
	"internal/lab/checks":             {".", "wire", "internal/lab", "internal/lab/crashfs", "internal/lab/link", "internal/lab/probe", "internal/lab/rows"},
	"cmd/impart": {
		".", "wire", "client", "internal/chat", "internal/api", "internal/auth", "internal/bench", "internal/bus", "internal/bus/pgbus", "internal/dedup", "internal/gateway",
		"internal/lab", "internal/lab/app", "internal/lab/campaign", "internal/lab/campaign/processes",
		"internal/lab/checks", "internal/lab/crashfs", "internal/lab/mysql", "internal/lab/postgres", "internal/lab/report",
		"internal/logic", "internal/pending", "internal/redis", "internal/rpc", "internal/store", "internal/store/sqlstore", "web",
	},
	"deploy/monitoring": {}, // writes rules and dashboard from a list
	"docs":              {}, // nothing but tests of the pages
	"model":             {}, // runs spin, and shares nothing with what it is a model of
	// What tests the binary from outside shares no code with it, only what breaks
	// the machine around it; benchmarks measure the parts in-process too.
	"test": {"internal/lab/link", "internal/lab/mysql", "internal/lab/postgres", "internal/lab/redis"},
	// It stands outside too, but for the SDK, which is what comes back.
	"test/crowd": {".", "client", "test"},
	"test/bench": {
		".", "wire", "internal/api", "internal/auth", "internal/bus", "internal/gateway", "internal/logic",
		"internal/pending", "internal/store", "internal/store/sqlstore", "test",
	},
}

// testsMayImport are packages that stand in for a neighbour in tests, beyond
// mayImport. Tests of the wire and of the contracts stay as narrow as their code,
// but for the store's, which holds an event's Size against what the wire makes of it.
var testsMayImport = map[string][]string{
	".":                               {"wire"},
	"docs":                            {".", "wire"},
	"client":                          {"internal/gateway", "internal/lab/world", "internal/logic", "internal/store/memstore"},
	"internal/chat":                   {"internal/lab/world"},
	"internal/store":                  {"wire"},
	"internal/lab/campaign/processes": {"internal/lab"},
	"internal/lab/link":               {"internal/lab/pipe"},
	"internal/store/sqlstore":         {"internal/conformance", "internal/lab/link", "internal/lab/mysql", "internal/lab/postgres"},
	"internal/store/memstore":         {"internal/conformance"},
	"internal/bus":                    {"internal/conformance"},
	"internal/bus/pgbus":              {"internal/conformance", "internal/lab/link", "internal/lab/postgres"},
	"cmd/impart":                      {"internal/lab/authority", "internal/lab/redis", "deploy/monitoring"},
	"internal/pending":                {"internal/conformance"},
	"internal/redis":                  {"internal/conformance", "internal/lab/authority", "internal/lab/link", "internal/lab/redis"},
	"internal/logic":                  {"internal/store/memstore", "internal/store/sqlstore"},
	"internal/gateway":                {"internal/lab/hop", "internal/lab/pipe", "internal/logic", "internal/store", "internal/store/memstore", "internal/store/sqlstore"},
	"internal/rpc":                    {"internal/bus", "internal/gateway", "internal/lab/pipe", "internal/logic", "internal/pending", "internal/store/memstore"},
	"internal/api":                    {"internal/bus", "internal/lab/hop", "internal/logic", "internal/store", "internal/store/memstore", "internal/store/sqlstore"},
	"internal/bench":                  {"internal/bus", "internal/gateway", "internal/logic", "internal/pending", "internal/store/sqlstore"},
}

// owners are packages from elsewhere that only one part of ours may touch. A
// prefix stands for everything under it; tests under test/ may use them all.
var owners = map[string][]string{
	"database/sql":                {"internal/store/sqlstore", "client", "internal/lab/rows", "internal/lab/crashfs", "internal/lab/campaign", "internal/lab/mysql"}, // the lab judges and tries files itself
	"github.com/hanwen/":          {"internal/lab/crashfs"},
	"modernc.org/":                {"internal/store/sqlstore", "internal/lab/crashfs", "client", "internal/lab/campaign", "internal/lab/rows"},
	"github.com/pressly/goose":    {"internal/store/sqlstore"},
	"github.com/jackc/pgx":        {"internal/pgdial", "internal/store/sqlstore", "internal/bus/pgbus", "internal/lab/postgres", "internal/lab/rows"},
	"github.com/redis/":           {"internal/redis"},
	"github.com/bits-and-blooms/": {"internal/dedup"},
	"github.com/go-sql-driver/":   {"internal/store/sqlstore", "internal/lab/mysql", "internal/lab/rows"},
	"github.com/gobwas/":          {"internal/gateway", "internal/bench", "internal/lab/world"},
	"github.com/HdrHistogram/":    {"internal/bench"},
	"github.com/golang-jwt/":      {"internal/auth"},
	"github.com/MicahParks/":      {"internal/auth"},
	"github.com/danielgtaylor/":   {"internal/api"},
	"github.com/spf13/":           {"cmd/impart"},
	"github.com/vbauerster/":      {"cmd/impart"},
	"charm.land/":                 {"cmd/impart", "internal/chat"},
	"github.com/goccy/go-yaml":    {"cmd/impart"},
	"github.com/lmittmann/tint":   {"cmd/impart"},
	"os/signal":                   {"cmd/impart", "model"},
	"flag":                        {"cmd/impart", "internal/bench", "model"},
	"github.com/anishathalye/":    {"internal/lab/campaign/history"},
	"google.golang.org/":          {"internal/rpc", "internal/rpc/impartpb"},
	"github.com/coder/websocket":  {"client", "internal/lab/probe"}, // clients
	"testing":                     {"internal/conformance"},
}

// badNames say nothing about what a package is for.
var badNames = []string{"util", "utils", "common", "helper", "helpers", "types", "base", "misc", "shared"}

// sleepsAllowed lists test files outside test/ that may sleep, with the reason.
var sleepsAllowed = map[string]string{
	"internal/chat/lines_test.go":      "its stories run in the bubbles of virtual time that world_test.go makes",
	"internal/chat/screen_test.go":     "its stories run in the bubbles of virtual time that world_test.go makes",
	"internal/gateway/inherit_test.go": "its story runs in a bubble of virtual time that world_test.go makes",
	"internal/gateway/between_test.go": "its stories run in the bubbles of virtual time that world_test.go makes",
	"internal/logic/failover_test.go":  "its stories run in bubbles of virtual time",
	"client/failover_test.go":          "its stories run in bubbles of virtual time",
	"client/careless_test.go":          "its stories run in the bubbles of virtual time that world_test.go makes",
	"client/hostile_test.go":           "its stories run in the bubbles of virtual time that scripted_test.go makes",
	"client/epoch_test.go":             "its stories run in the bubbles of virtual time that world_test.go makes",
	"client/owner_test.go":             "its stories run in the bubbles of virtual time that world_test.go makes",
	"client/link_test.go":              "its stories run in the bubbles of virtual time that world_test.go makes",
	"client/receive_test.go":           "its stories run in the bubbles of virtual time that world_test.go makes",
	"client/story_test.go":             "its story runs in bubbles of virtual time",
	"client/doubt_test.go":             "its stories run in bubbles of virtual time",
	"client/rare_test.go":              "its stories run in bubbles of virtual time",
	"client/send_test.go":              "its stories run in the bubbles of virtual time that world_test.go makes",
}

func TestImportRules(t *testing.T) {
	report(t, importFaults(readTree(t, os.DirFS("."))))
}

func TestHouseRules(t *testing.T) {
	report(t, houseFaults(readTree(t, os.DirFS("."))))
}

func report(t *testing.T, faults []string) {
	t.Helper()
	for _, f := range faults {
		t.Error(f)
	}
}

// source is one parsed Go file.
type source struct {
	name    string // slash-separated, under the root
	pkg     string // its folder: "." for the root; everything under test/ is "test"
	text    []byte
	file    *ast.File
	imports []string
}

func (s source) test() bool { return strings.HasSuffix(s.name, "_test.go") }

// outside reports whether s is under test/, where the whole is tested and measured.
func (s source) outside() bool { return s.pkg == "test" || strings.HasPrefix(s.pkg, "test/") }

func (s source) generated() bool { return ast.IsGenerated(s.file) }

// readTree parses every Go file of the module.
func readTree(t *testing.T, tree fs.FS) []source {
	t.Helper()
	var sources []source
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			skip := name != "." && (strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"node_modules", "testdata", "impart-data", "tools"}, entry.Name()))
			if skip {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		s, err := parseSource(name, text)
		sources = append(sources, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) == 0 {
		t.Fatal("no Go file found")
	}
	return sources
}

func parseSource(name string, text []byte) (source, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	s := source{name: name, pkg: place(path.Dir(name)), text: text, file: file}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		s.imports = append(s.imports, imported)
	}
	return s, nil
}

// place is the name under which a folder stands in the tables.
func place(folder string) string {
	if strings.HasPrefix(folder, "test/") && folder != "test/bench" && folder != "test/crowd" {
		return "test"
	}
	return folder
}

func importFaults(sources []source) []string {
	var faults []string
	for _, s := range sources {
		if _, listed := mayImport[s.pkg]; !listed {
			faults = append(faults, fmt.Sprintf("%s: package %s is not in mayImport of arch_test.go: decide what it may import", s.name, s.pkg))
			continue
		}
		for _, imported := range s.imports {
			faults = append(faults, importFault(s, imported)...)
		}
	}
	return faults
}

func importFault(s source, imported string) []string {
	if imported == module || strings.HasPrefix(imported, module+"/") {
		ours := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
		if ours == "" {
			ours = "."
		} else {
			ours = place(ours)
		}
		if ours == "internal/fault" && s.pkg != "test" || ours == s.pkg || slices.Contains(mayImport[s.pkg], ours) {
			return nil
		}
		if s.test() && slices.Contains(testsMayImport[s.pkg], ours) {
			return nil
		}
		return []string{fmt.Sprintf("%s: %s must not import %s", s.name, s.pkg, ours)}
	}
	if s.pkg == "." && !s.test() && strings.Contains(imported, ".") {
		return []string{fmt.Sprintf("%s: the root needs nothing but the standard library, not %s", s.name, imported)}
	}
	if s.pkg == "wire" && !s.test() && (imported == "net" || imported == "os" || strings.HasPrefix(imported, "net/")) {
		return []string{fmt.Sprintf("%s: wire does no I/O, so it must not import %s", s.name, imported)}
	}
	for prefix, allowed := range owners {
		under := imported == prefix || strings.HasPrefix(imported, strings.TrimSuffix(prefix, "/")+"/")
		if !under || s.outside() || slices.Contains(allowed, s.pkg) {
			continue
		}
		// Tests may drive a part from outside with what a client or a test uses.
		if s.test() && (prefix == "testing" || prefix == "flag" || prefix == "github.com/coder/websocket" || prefix == "github.com/golang-jwt/") {
			continue
		}
		return []string{fmt.Sprintf("%s: %s must not import %s, which belongs to %s", s.name, s.pkg, imported, strings.Join(allowed, ", "))}
	}
	return nil
}

// Limits of a file.
const longFile = 600 // lines

func houseFaults(sources []source) []string {
	var faults []string
	commented := map[string]bool{}
	named := map[string]string{}
	for _, s := range sources {
		folder := path.Dir(s.name)
		if !s.test() {
			commented[folder] = commented[folder] || s.file.Doc != nil && strings.TrimSpace(s.file.Doc.Text()) != ""
			named[folder] = s.file.Name.Name
		} else if _, found := named[folder]; !found && s.outside() {
			// A folder with nothing but tests says in one of them what it is for.
			commented[folder] = commented[folder] || s.file.Doc != nil
		}
		faults = append(faults, fileFaults(s)...)
	}
	for folder, is := range commented {
		if !is {
			faults = append(faults, folder+": the package has no comment that says what it promises")
		}
		if slices.Contains(badNames, named[folder]) || slices.Contains(badNames, path.Base(folder)) {
			faults = append(faults, folder+": the name says nothing; name the package for what it does")
		}
	}
	slices.Sort(faults)
	return faults
}

func fileFaults(s source) []string {
	var faults []string
	if lines := bytes.Count(s.text, []byte("\n")); lines > longFile && !s.generated() {
		faults = append(faults, fmt.Sprintf("%s: %d lines, at most %d: split it by steps", s.name, lines, longFile))
	}
	// Spelt in two halves, or this file would be a fault itself.
	markers := []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"}
	scanner := bufio.NewScanner(bytes.NewReader(s.text))
	scanner.Buffer(nil, 1<<20)
	for n := 1; scanner.Scan(); n++ {
		for _, marker := range markers {
			if strings.Contains(scanner.Text(), marker) {
				faults = append(faults, fmt.Sprintf("%s:%d: %s is left over: do it, or file it", s.name, n, marker))
			}
		}
	}
	virtual := slices.Contains(s.imports, "testing/synctest") // where sleeping costs no time
	if s.test() && !s.outside() && !virtual && sleepsAllowed[s.name] == "" && calls(s.file, "time", "Sleep") {
		faults = append(faults, s.name+": time.Sleep in a test: use testing/synctest, or wait for a signal")
	}
	if !s.test() && !s.outside() && s.pkg != "cmd/impart" && s.pkg != "internal/fault" {
		for _, name := range []string{"Getenv", "LookupEnv", "Environ"} {
			if calls(s.file, "os", name) {
				faults = append(faults, s.name+": os."+name+": only cmd/impart reads the environment; take it as configuration")
			}
		}
	}
	return faults
}

// calls reports whether the file names pkg.name.
func calls(file *ast.File, pkg, name string) bool {
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == name {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == pkg {
				found = true
			}
		}
		return !found
	})
	return found
}

// TestRulesFindFaults plants one fault for each rule: a rule that finds nothing
// in its own would be worth nothing.
func TestRulesFindFaults(t *testing.T) {
	const doc = "// Package p is planted.\n"
	planted := map[string]struct{ file, text, want string }{
		"gateway imports logic":      {"internal/gateway/a.go", doc + `package p; import _ "` + module + `/internal/logic"`, "must not import internal/logic"},
		"logic imports the wire":     {"internal/logic/a.go", doc + `package p; import _ "` + module + `/wire"`, "must not import wire"},
		"code imports conformance":   {"internal/store/sqlstore/a.go", doc + `package p; import _ "` + module + `/internal/conformance"`, "must not import internal/conformance"},
		"black box shares code":      {"test/blackbox/a_test.go", doc + `package p; import _ "` + module + `/wire"`, "must not import wire"},
		"root imports a library":     {"a.go", doc + `package p; import _ "github.com/google/uuid"`, "standard library"},
		"wire does I/O":              {"wire/a.go", doc + `package p; import _ "net"`, "does no I/O"},
		"logic touches a driver":     {"internal/logic/a.go", doc + `package p; import _ "modernc.org/sqlite"`, "belongs to internal/store/sqlstore"},
		"api touches SQL":            {"internal/api/a.go", doc + `package p; import _ "database/sql"`, "belongs to internal/store/sqlstore"},
		"api touches the WebSocket":  {"internal/api/a.go", doc + `package p; import _ "github.com/gobwas/ws"`, "belongs to internal/gateway"},
		"code imports testing":       {"internal/api/a.go", doc + `package p; import _ "testing"`, "belongs to internal/conformance"},
		"package out of nowhere":     {"internal/thing/a.go", doc + `package p`, "not in mayImport"},
		"package without comment":    {"wire/a.go", `package p`, "no comment"},
		"package with an empty name": {"internal/util/a.go", "// Package util does.\npackage util", "says nothing"},
		"file too long":              {"wire/a.go", doc + "package p\n" + strings.Repeat("\n", longFile), "split it"},
		"sleep in a test":            {"wire/a_test.go", doc + `package p; import "time"; func f() { time.Sleep(1) }`, "synctest"},
		"environment read elsewhere": {"wire/a.go", doc + `package p; import "os"; var x = os.Getenv("X")`, "only cmd/impart"},
		"marker left":                {"wire/a.go", doc + "package p // TO" + "DO: later", "left over"},
	}
	for name, plant := range planted {
		t.Run(name, func(t *testing.T) {
			sources := readTree(t, fstest.MapFS{plant.file: {Data: []byte(plant.text)}})
			faults := strings.Join(append(importFaults(sources), houseFaults(sources)...), "\n")
			if !strings.Contains(faults, plant.want) {
				t.Errorf("the rules do not find it; they say: %q", faults)
			}
		})
	}
}
