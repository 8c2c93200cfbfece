package docs_test

import (
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/impart-im/impart"
)

// planted is a small repository in which a check should find something.
type planted fstest.MapFS

func (files planted) pages(t *testing.T) []page {
	return readPages(t, fstest.MapFS(files))
}

func files(texts map[string]string) planted {
	tree := planted{}
	for name, text := range texts {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return tree
}

// TestChecksFindFaults plants one fault for each check: one that finds nothing
// in its own would be worth nothing.
func TestChecksFindFaults(t *testing.T) {
	for name, faults := range map[string]struct {
		found []string
		want  string
	}{
		"a link to no file":          {links(t, "see [it](gone.md)"), "leads nowhere"},
		"a link to no heading":       {links(t, "# A b\n\nsee [it](#a-c)"), "has no heading"},
		"a file that is gone":        {paths(t, "look into `internal/gone/a.go`"), "there is no internal/gone/a.go"},
		"a page that is not listed":  {indexFaults("docs", []page{{"docs/README.md", ""}, {"docs/a.md", ""}}), "does not list a.md"},
		"a test that is gone":        {commands(t, "run `go test ./a -run TestGone`"), "runs no test"},
		"a subtest that is gone":     {commands(t, "run `go test ./a -run TestHere/gone`"), "subtest gone that is nowhere"},
		"a package that is gone":     {commands(t, "run `go test ./b`"), "no package"},
		"a test that is named":       {commands(t, "see `TestGone`"), "there is no TestGone"},
		"a target that is gone":      {commands(t, "run `make gone`"), "no target gone"},
		"a target that runs nothing": {commands(t, "```sh\nmake idle\n```"), "runs no test"},
		"a variable of nobody":       {commands(t, "run `NOBODY=1 go test ./a`"), "nothing reads the variable NOBODY"},
		"a make variable of nobody":  {commands(t, "run `make fine NOBODY=1`"), "no variable NOBODY"},
		"an invariant unexplained":   {evidenceFaults(page{text: "| id | what always holds | how it is kept |\n| --- | --- | --- |\n| D1 | x | `a.go` |\n"}), "does not say how D2 is kept"},
		"an invariant unchecked":     {evidenceFaults(page{text: "| id | what is shown | command |\n| --- | --- | --- |\n| D1 | x | `go test ./a` |\n"}), "no command that checks D2"},
		"a case untold":              {caseFaults(page{text: "| case | what went wrong elsewhere | command |\n| --- | --- | --- |\n| 1 | x | `go test ./a` |\n"}), "does not tell case 2"},
		"a case untold apart":        {caseFaults(page{text: "| case | what went wrong elsewhere | command |\n| --- | --- | --- |\n| 5 | killed (one node) | `go test ./a` |\n"}), "does not tell case 5 with the roles apart"},
		"evidence without command":   {evidenceFaults(page{text: "| id | what is shown | command |\n| --- | --- | --- |\n| D1 | x | trust us |\n"}), "should have one command"},
		"an example with a mistake":  {examples("→ {\"t\":\"send\",\"conv\":\"c\"}"), "cmid is missing"},
		"an example out of order":    {examples("← {\"t\":\"pong\",\"x\":1,\"rid\":\"1\"}"), "the server writes"},
		"an event with a mistake":    {exampleFaults(page{text: "```json\n{\"conv\":\"c\"}\n```\n"}), "seq is missing"},
		"a request with a mistake":   {exampleFaults(page{text: "```http\nPOST /api/msg/ack\nA: b\n\n{}\n\n200\n{}\n```\n"}), "needs conv and seq"},
		"a frame without example":    {frameFaults(readSources(t, tree)["wire"], page{}), "no example of welcome"},
		"a field without a word":     {frameFaults(readSources(t, tree)["wire"], page{}), `does not name the field "after_mid"`},
		"a code untold":              {errorFaults(page{}), "retry of NOT_MEMBER"},
		"a code told wrongly":        {errorFaults(page{text: "| code | retry | cause |\n| --- | --- | --- |\n| `OVERLOADED` | no | x |\n"}), "should be \"yes\""},
		"a bye untold":               {byeFaults(page{}), "final of DRAIN"},
		"a close code untold":        {byeFaults(page{}), "close code of IDLE"},
		"a hint untold":              {byeFaults(page{}), "hint with resume"},
		"another status":             {statusFaults(map[impart.Code]int{impart.TooLarge: 413}, page{text: "| status | codes |\n| --- | --- |\n| 400 | `TOO_LARGE` |\n"}), "status of TOO_LARGE"},
		"another limit":              {limitFaults(readSources(t, tree), page{text: "| limit | value | beyond it |\n| --- | --- | --- |\n| cmid | 640 bytes | x |\n"}), "limit of cmid"},
		"a decision without price":   {decisionFaults([]page{{"docs/decisions/0001-a.md", "# 0001: a\n\n**Context.**\n\n**Choice.**\n"}}), "no **Price.**"},
		"a decision unlisted":        {decisionFaults([]page{{"docs/decisions/0001-a.md", ""}}), "lists []"},
		"a module without reason":    {dependencyFaults("require (\n\texample.org/a v1.0.0\n)\n", nil, page{}), "no reason for example.org/a"},
		"an import without reason":   {dependencyFaults("\texample.org/a v1.0.0 // indirect\n", sources{".": {imports: []string{"example.org/a/b"}}}, page{}), "no reason for example.org/a"},
		"a reason without module":    {dependencyFaults("", nil, page{text: "| module | for | why this one |\n| --- | --- | --- |\n| `example.org/a` | x | y |\n"}), "nothing imports"},
		"a package unexplained":      {packageFaults(readSources(t, files(map[string]string{"a/a.go": "package a"}).tree()), page{}), "what a is for"},
		"a bug unexplained":          {bugFaults(readSources(t, tree)["internal/fault"], page{}), "no-dedup breaks"},
	} {
		t.Run(name, func(t *testing.T) {
			if found := strings.Join(faults.found, "\n"); !strings.Contains(found, faults.want) {
				t.Errorf("the check does not find it; it says: %q", found)
			}
		})
	}
}

// TestChecksLetTheRestPass runs the checks that plant on what is right.
func TestChecksLetTheRestPass(t *testing.T) {
	report(t, links(t, "# A `b` c!\n\nsee [it](#a-b-c), [that](docs/a.md#x) and [elsewhere](https://example.org/)"))
	report(t, paths(t, "`docs/a.md`, `README.md`, `some/other/thing`, `x.y.Z`"))
	report(t, commands(t, "`go test ./a -run TestHere/a_subtest`, `make fine`, `SOME_SETTING=1 go test ./... -run 'Test(Here)'`"))
	report(t, examples("→ {\"t\":\"ping\"}\n← {\"t\":\"pong\",\"rid\":\"1\"}"))
}

func (files planted) tree() fstest.MapFS { return fstest.MapFS(files) }

// around are the files that the planted pages speak of.
func around(text string) planted {
	all := files(map[string]string{
		"docs/a.md":   "# X\n",
		"a/a_test.go": "package a\n\nfunc TestHere(t *testing.T) { t.Run(\"a subtest\", os.Getenv(\"SOME_SETTING\")) }\n",
	})
	maps.Copy(all, files(map[string]string{"README.md": text}))
	return all
}

func links(t *testing.T, text string) []string {
	all := around(text)
	return linkFaults(all.tree(), all.pages(t))
}

func paths(t *testing.T, text string) []string {
	all := around(text)
	return pathFaults(all.tree(), all.pages(t))
}

func commands(t *testing.T, text string) []string {
	all := around(text)
	m := parseMakefile("GO ?= go\nfine:\n\t$(GO) test ./a -run '^TestHere$$'\nidle:\n\t$(GO) test -run Gone ./a\n")
	return commandFaults(checker{readSources(t, all.tree()), m}, all.pages(t))
}

func examples(text string) []string {
	return exampleFaults(page{text: "```text\n" + text + "\n```\n"})
}
