package docs_test

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart"
)

// TestLimitsAreThoseOfTheCode reads each limit's value from the code and wants
// it in its row of the table.
func TestLimitsAreThoseOfTheCode(t *testing.T) {
	all := readSources(t, tree)
	faults := limitFaults(all, readPage(t, protocol))
	report(t, append(faults, unlisted(all)...))
}

// TestNumbersInTheTextAreThoseOfTheCode does the same for numbers outside of
// tables.
func TestNumbersInTheTextAreThoseOfTheCode(t *testing.T) {
	all := readSources(t, tree)
	for _, s := range sentences {
		value, err := all.number(s.folder, s.name)
		if err != nil {
			t.Error(err)
			continue
		}
		if text := fmt.Sprintf(s.text, s.as(value)); !strings.Contains(readPage(t, s.page).text, text) {
			t.Errorf("%s does not say %q, which is %s of %s", s.page, text, s.name, s.folder)
		}
	}
}

// limits are the rows of the table of limits and where their values come from.
var limits = []struct {
	row, folder, name string
	as                func(int64) string
}{
	{"user, device, conversation id", ".", "MaxID", bytesOf},
	{"install", "wire", "maxInstall", bytesOf},
	{"cmid", ".", "MaxCMID", bytesOf},
	{"type", ".", "MaxType", bytesOf},
	{"rid", ".", "MaxRID", bytesOf},
	{"rid that an error still repeats", "wire", "maxEcho", bytesOf},
	{"token", "internal/auth", "maxToken", bytesOf},
	{"body", "internal/logic", "DefaultMaxBody", bytesOf},
	{"body", "internal/gateway", "MaxBody", bytesOf},
	{"ext", ".", "MaxExt", bytesOf},
	{"frame from a client", "internal/gateway", "MaxFrame", bytesOf},
	{"message from a client", "internal/gateway", "maxMessage", bytesOf},
	{"first message, before `welcome`", "internal/gateway", "maxGreeting", bytesOf},
	{"fragments of a message", "internal/gateway", "maxFragments", count},
	{"nesting of a value", "wire", "MaxDepth", count},
	{"number", ".", "MaxNumber", count},
	{"features in a hello", "wire", "maxFeatures", count},
	{"name of a feature", "wire", "maxFeature", bytesOf},
	{"acks in a frame", ".", "MaxLimit", count},
	{"`limit` of a page", ".", "MaxLimit", count},
	{"`limit` of a page", ".", "DefaultLimit", func(n int64) string { return count(n) + " if absent" }},
	{"conversations in `subbed`", "internal/gateway", "maxSubbed", count},
	{"reply frame", ".", "MaxPage", bytesOf},
	{"members of a conversation with receipts", ".", "MaxReceipts", count},
	{"requests in flight", "internal/gateway", "MaxInflight", count},
	{"time to say hello", "internal/gateway", "HelloTime", span},
	{"time to handle a request", "internal/gateway", "RequestTime", span},
	{"heartbeat", "internal/gateway", "Heartbeat", span},
}

// sentences are numbers in the text of the pages; %s stands for the value.
var sentences = []struct {
	page, folder, name, text string
	as                       func(int64) string
}{
	{protocol, "internal/gateway", "QueueFrames", "is bounded: %s pushed frames", count},
	{protocol, "internal/gateway", "QueueBytes", "pushed frames or %s.", kib},
	{protocol, "internal/gateway", "HelloTime", "within %s seconds of the handshake", seconds},
	{protocol, "internal/gateway", "Sweep", "Every %s seconds by default the server compares", seconds},
	{protocol, "internal/gateway", "freshness", "pushed within the last %s ms", millis},
	{protocol, "internal/gateway", "ackDelay", "or after %s ms, whichever comes first", millis},
	{protocol, "internal/gateway", "MaxRate", "per connection (%s requests a second)", count},
	{protocol, "internal/logic", "DefaultSendRate", "per user (%s messages a second by default)", count},
	{protocol, "internal/gateway", "maxFragments", "at most %s frames", count},
	{protocol, "internal/api", "maxRequest", "and at most %s. A request", mib},
	{protocol, "internal/logic", "DefaultRecallWindow", "(%s hours unless set otherwise)", func(n int64) string { return count(n / int64(time.Hour)) }},
	{"docs/architecture.md", "internal/gateway", "QueueFrames", "Pushes past %s frames", count},
	{"docs/architecture.md", "internal/gateway", "QueueBytes", "frames or %s are dropped", kib},
	{"docs/architecture.md", "internal/gateway", "MaxInflight", "with %s requests without a reply", count},
	{"docs/architecture.md", "internal/gateway", "scanEvery", "A scan every %s ms", millis},
	{"docs/architecture.md", "internal/store/sqlstore", "maxQueueBytes", "waiting items or %s, writes", mib},
	{"docs/decisions/0005-websocket-library.md", "internal/gateway", "readBuffer", "a %s-byte buffer", count},
}

func limitFaults(all sources, p page) []string {
	rows := map[string]string{}
	for _, row := range p.rows("limit", "value", "beyond it") {
		rows[row[0]] = row[1]
	}
	var faults []string
	for _, l := range limits {
		value, err := all.number(l.folder, l.name)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		if want := l.as(value); !slices.ContainsFunc(strings.FieldsFunc(rows[l.row], func(r rune) bool { return r == ';' || r == '(' }), func(part string) bool {
			return strings.Contains(" "+part+" ", " "+want+" ")
		}) {
			faults = append(faults, fmt.Sprintf("%s: the limit of %s is %q and should be %s (%s of %s)", p.name, l.row, rows[l.row], want, l.name, l.folder))
		}
	}
	for row := range rows {
		if !slices.ContainsFunc(limits, func(l struct {
			row, folder, name string
			as                func(int64) string
		}) bool {
			return l.row == row
		}) {
			faults = append(faults, fmt.Sprintf("%s: where does the limit of %s come from? Add it to limits in this test", p.name, row))
		}
	}
	return faults
}

// unlisted are public limits of the code that the table could lack.
func unlisted(all sources) []string {
	var faults []string
	for _, folder := range []string{".", "wire"} {
		for name, value := range all[folder].values {
			if !strings.HasPrefix(name, "Max") || !ast.IsExported(name) {
				continue
			}
			if _, err := all[folder].eval(value); err != nil {
				continue
			}
			known := false
			for _, l := range limits {
				known = known || l.folder == folder && l.name == name
			}
			if !known {
				faults = append(faults, fmt.Sprintf("%s: tell the limit %s of %q and add it to limits in this test", protocol, name, folder))
			}
		}
	}
	return faults
}

// count writes a number with commas.
func count(n int64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func bytesOf(n int64) string { return count(n) + " bytes" }

func kib(n int64) string { return count(n>>10) + " KiB" }

func mib(n int64) string { return count(n>>20) + " MiB" }

func span(n int64) string { return seconds(n) + " s" }

func seconds(n int64) string { return count(n / int64(time.Second)) }

func millis(n int64) string { return count(n / int64(time.Millisecond)) }

// TestNumbersAreWorkedOut keeps the reader of constants honest where the real
// value can be asked for.
func TestNumbersAreWorkedOut(t *testing.T) {
	all := readSources(t, tree)
	for name, want := range map[string]int64{"MaxNumber": impart.MaxNumber, "MaxPage": impart.MaxPage, "MaxExt": impart.MaxExt} {
		if got, err := all.number(".", name); err != nil || got != want {
			t.Errorf("%s: worked out %d, %v; it is %d", name, got, err, want)
		}
	}
}
