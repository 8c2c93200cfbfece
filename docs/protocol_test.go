package docs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

const protocol = "docs/protocol.md"

// TestExamplesAreFrames decodes every example in the direction of its arrow.
// What the server is said to send is what it would write, byte for byte.
func TestExamplesAreFrames(t *testing.T) {
	report(t, exampleFaults(readPage(t, protocol)))
}

// TestEveryFrameIsExplained wants an example of every type of frame in both
// directions, and every field named.
func TestEveryFrameIsExplained(t *testing.T) {
	report(t, frameFaults(readSources(t, tree)["wire"], readPage(t, protocol)))
}

func TestTheTableOfErrorsIsTheCodes(t *testing.T) {
	report(t, errorFaults(readPage(t, protocol)))
}

func TestTheTablesOfGoodbyesAreTheCodes(t *testing.T) {
	report(t, byeFaults(readPage(t, protocol)))
}

func TestTheTableOfStatusesIsTheAPIs(t *testing.T) {
	statuses, err := statusOf(readSources(t, tree)["internal/api"])
	if err != nil {
		t.Fatal(err)
	}
	report(t, statusFaults(statuses, readPage(t, protocol)))
}

// examples are the lines of the text blocks that start with an arrow.
func (p page) examples() (fromClient, fromServer []string) {
	blocks, _ := p.split()
	for _, b := range blocks {
		if b.kind != "text" {
			continue
		}
		for line := range strings.Lines(b.text) {
			line = strings.TrimSpace(line)
			if frame, ok := strings.CutPrefix(line, "→ "); ok {
				fromClient = append(fromClient, frame)
			}
			if frame, ok := strings.CutPrefix(line, "← "); ok {
				fromServer = append(fromServer, frame)
			}
		}
	}
	return fromClient, fromServer
}

func exampleFaults(p page) []string {
	var faults []string
	say := func(example string, err error) {
		faults = append(faults, fmt.Sprintf("%s: %s: %v", p.name, example, err))
	}
	fromClient, fromServer := p.examples()
	for _, example := range fromClient {
		if _, _, err := wire.Decode([]byte(example)); err != nil {
			say(example, err)
		}
	}
	for _, example := range fromServer {
		if err := serverFrame(example); err != nil {
			say(example, err)
		}
	}
	blocks, _ := p.split()
	for _, b := range blocks {
		switch b.kind {
		case "json":
			for line := range strings.Lines(b.text) {
				line = strings.TrimSpace(line)
				around := fmt.Sprintf(`{"t":"event","ev":%s,"epoch":1}`, line)
				if strings.HasPrefix(line, `{"code"`) {
					around = `{"t":"error",` + line[1:]
				}
				if err := serverFrame(around); err != nil {
					say(line, err)
				}
			}
		case "http":
			if err := httpExample(b.text); err != nil {
				say(b.text, err)
			}
		}
	}
	return faults
}

// serverFrame decodes a frame of the server and compares it with what the
// server would write.
func serverFrame(text string) error {
	frame, err := wire.DecodeServer([]byte(text))
	if err != nil {
		return err
	}
	if written := frame.Append(nil); string(written) != text {
		return fmt.Errorf("the server writes %s", written)
	}
	return nil
}

// replies are the frames that the answers of the HTTP API take their fields from.
var replies = map[string]string{
	"recall": "sent", "sync": "synced", "pull": "pulled", "ack": "acked", "read": "readed", "who": "whos",
}

// httpExample checks a request and its answer: the body is what follows the
// first empty line, the answer what follows the status.
func httpExample(text string) error {
	first, rest, _ := strings.Cut(text, "\n")
	name, ok := strings.CutPrefix(first, "POST /api/msg/")
	if !ok {
		return fmt.Errorf("%q is no request of the send API", first)
	}
	_, rest, _ = strings.Cut(rest, "\n\n")
	body, rest, _ := strings.Cut(rest, "\n\n")
	status, answer, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	if code, err := strconv.Atoi(status); err != nil || http.StatusText(code) == "" {
		return fmt.Errorf("%q is no status", status)
	}
	if name == "send" {
		if _, err := wire.DecodeSendRequest([]byte(body)); err != nil {
			return err
		}
		return fields(answer, "msg_id", "seq", "dup", "epoch")
	}
	if _, err := wire.DecodeAs(name, []byte(body)); err != nil {
		return err
	}
	return serverFrame(fmt.Sprintf(`{"t":%q,%s`, replies[name], answer[1:]))
}

// fields wants exactly these fields in a JSON object.
func fields(text string, names ...string) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		return err
	}
	slices.Sort(names)
	if found := slices.Sorted(maps.Keys(object)); !slices.Equal(found, names) {
		return fmt.Errorf("the fields are %v and should be %v", found, names)
	}
	return nil
}

// frameFaults are types of frames without an example, and fields that stand
// neither in a table nor in an example.
func frameFaults(code *pkg, p page) []string {
	fromClient, fromServer := p.examples()
	var faults []string
	for function, examples := range map[string][]string{"frame": fromClient, "serverFrame": fromServer, "push": fromServer} {
		types := code.cases[function]
		if len(types) == 0 {
			faults = append(faults, fmt.Sprintf("wire has no function %s with the types of frames: mend this test", function))
		}
		for _, typ := range types {
			has := slices.ContainsFunc(examples, func(e string) bool { return strings.HasPrefix(e, fmt.Sprintf(`{"t":%q`, typ)) })
			if !has {
				faults = append(faults, fmt.Sprintf("%s has no example of %s", p.name, typ))
			}
		}
	}
	names, _ := code.values["names"].(*ast.CompositeLit)
	if names == nil || len(names.Elts) == 0 {
		return append(faults, "wire has no table of names: mend this test")
	}
	for _, e := range names.Elts {
		pair, _ := e.(*ast.KeyValueExpr)
		lit, _ := pair.Value.(*ast.BasicLit)
		name, err := strconv.Unquote(lit.Value)
		if err != nil || !strings.Contains(p.text, `"`+name+`"`) && !strings.Contains(p.text, "`"+name+"`") {
			faults = append(faults, fmt.Sprintf("%s does not name the field %s", p.name, lit.Value))
		}
	}
	return faults
}

// deviceCodes are the codes that a device can see.
func deviceCodes() []impart.Code {
	return slices.DeleteFunc(impart.Codes(), func(c impart.Code) bool {
		return c == impart.NotFound || c == impart.Conflict || c == impart.Invalid
	})
}

func errorFaults(p page) []string {
	var faults []string
	told := map[string]string{}
	for _, row := range p.rows("code", "retry", "cause") {
		told[strings.Trim(row[0], "`")] = row[1]
	}
	for _, code := range deviceCodes() {
		want := "no"
		if code.Retry() {
			want = "yes"
		}
		if got, ok := told[string(code)]; !ok || got != want {
			faults = append(faults, fmt.Sprintf("%s: retry of %s is %q in the table of errors and should be %q", p.name, code, got, want))
		}
		delete(told, string(code))
	}
	for code := range told {
		faults = append(faults, fmt.Sprintf("%s: no device ever gets %s", p.name, code))
	}
	return faults
}

func byeFaults(p page) []string {
	var faults []string
	final, closes := map[string]string{}, map[string]string{}
	for _, row := range p.rows("`code`", "cause", "`final`") {
		final[strings.Trim(row[0], "`")] = row[2]
	}
	for _, row := range p.rows("close code", "after", "come back?") {
		for _, code := range codes(row[1]) {
			closes[code] = row[0]
		}
	}
	for _, code := range wire.ByeCodes() {
		if want := strconv.FormatBool(code.Final()); final[string(code)] != want {
			faults = append(faults, fmt.Sprintf("%s: final of %s is %q and should be %s", p.name, code, final[string(code)], want))
		}
		if want := fmt.Sprint(code.CloseCode()); closes[string(code)] != want {
			faults = append(faults, fmt.Sprintf("%s: the close code of %s is %q and should be %s", p.name, code, closes[string(code)], want))
		}
	}
	hints := p.rows("`why`", "cause", "`conv`")
	for _, why := range []string{wire.WhySweep, wire.WhyOverflow, wire.WhyRetry, wire.WhyResume} {
		if !slices.ContainsFunc(hints, func(row []string) bool { return row[0] == "`"+why+"`" }) {
			faults = append(faults, fmt.Sprintf("%s does not explain a hint with %s", p.name, why))
		}
	}
	return faults
}

// statusOf reads the API's own table from its code: cases of codes that return
// a status.
func statusOf(code *pkg) (map[impart.Code]int, error) {
	names := map[string]impart.Code{}
	for _, c := range impart.Codes() {
		var name strings.Builder // CMID_REUSED is impart.CMIDReused
		for word := range strings.SplitSeq(string(c), "_") {
			if word != "CMID" {
				word = word[:1] + strings.ToLower(word[1:])
			}
			name.WriteString(word)
		}
		names[name.String()] = c
	}
	statuses := map[impart.Code]int{}
	for _, file := range code.files {
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Name.Name != "statusOf" {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				clause, ok := n.(*ast.CaseClause)
				if !ok {
					return true
				}
				for _, e := range clause.List {
					if sel, ok := e.(*ast.SelectorExpr); ok {
						statuses[names[sel.Sel.Name]] = returnedStatus(clause)
					}
				}
				return false
			})
		}
	}
	for _, c := range impart.Codes() {
		if statuses[c] == 0 {
			return nil, fmt.Errorf("internal/api has no status for %s in statusOf: mend it, or this test", c)
		}
	}
	return statuses, nil
}

// returnedStatus is the http.StatusX that a case returns.
func returnedStatus(clause *ast.CaseClause) int {
	status := 0
	ast.Inspect(clause, func(n ast.Node) bool {
		ret, ok := n.(*ast.ReturnStmt)
		if !ok || len(ret.Results) != 1 {
			return true
		}
		if sel, ok := ret.Results[0].(*ast.SelectorExpr); ok {
			for code := 100; code < 600; code++ {
				words := strings.Map(func(r rune) rune {
					if !unicode.IsLetter(r) {
						return -1
					}
					return r
				}, http.StatusText(code))
				if words != "" && "Status"+words == sel.Sel.Name {
					status = code
				}
			}
		}
		return false
	})
	return status
}

func statusFaults(statuses map[impart.Code]int, p page) []string {
	var faults []string
	told := map[string]string{}
	for _, row := range p.rows("status", "codes") {
		for _, code := range codes(row[1]) {
			told[code] = row[0]
		}
	}
	for _, code := range deviceCodes() {
		if want := strconv.Itoa(statuses[code]); told[string(code)] != want {
			faults = append(faults, fmt.Sprintf("%s: the status of %s is %q and should be %s", p.name, code, told[string(code)], want))
		}
	}
	for _, code := range []impart.Code{impart.Invalid, impart.NotFound, impart.Conflict} {
		if sentence := fmt.Sprintf("%d `%s`", statuses[code], code); !strings.Contains(p.text, sentence) {
			faults = append(faults, fmt.Sprintf("%s does not say %s", p.name, sentence))
		}
	}
	return faults
}

// TestKindsAreExplained wants every kind of event in the table of kinds.
func TestKindsAreExplained(t *testing.T) {
	told := readPage(t, protocol).rows("kind", "meaning")
	for _, kind := range []impart.Kind{impart.KindMsg, impart.KindRecall, impart.KindJoin, impart.KindLeave, impart.KindMeta} {
		if !slices.ContainsFunc(told, func(row []string) bool { return slices.Contains(codes(row[0]), string(kind)) }) {
			t.Errorf("%s does not explain the kind %s", protocol, kind)
		}
	}
}

// TestExampleTextIsWhatAServerEscapes keeps the rule on escapes true.
func TestExampleTextIsWhatAServerEscapes(t *testing.T) {
	ev := &impart.Event{Conv: "c", Seq: 1, Kind: impart.KindMsg, MID: "m", Sender: "u", CMID: "k", Type: "text", Body: "<&>\u2028\x7f é \" \\ \n"}
	text := wire.Event{Event: ev, Epoch: 1}.Append(nil)
	if want := []byte("<&>\u2028\x7f é \\\" \\\\ \\n"); !bytes.Contains(text, want) {
		t.Errorf("the server writes %s", text)
	}
}
