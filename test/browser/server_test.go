package browser

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/impart-im/impart/test/blackbox/impart"
)

// entry is an event as the server's log has it, read over plain HTTP.
type entry struct {
	Seq    int64
	Kind   string
	Sender string
	Body   string
}

// log reads the whole conversation from the server, page by page, and checks
// that it has no hole and holds no mid and no cmid twice.
func log(t *testing.T, server *impart.Server) []entry {
	t.Helper()
	header := http.Header{"Authorization": {"Bearer dev:u-ana"}, "Impart-Device": {"d-checker"}, "Impart-Install": {"checker"}}
	var entries []entry
	seen := make(map[string]bool)
	for after, more := int64(0), true; more; {
		answer := server.Request(t, http.MethodPost, "/api/msg/sync", header, map[string]any{"conv": "c-demo", "after": after, "limit": 200})
		if answer.Status != http.StatusOK {
			t.Fatalf("sync of c-demo: %s", answer)
		}
		for _, event := range answer.JSON.List("events") {
			e := entry{Seq: event.Int("seq"), Kind: event.Str("kind"), Sender: event.Str("sender"), Body: event.Str("body")}
			if e.Seq != int64(len(entries))+1 {
				t.Fatalf("the server's log goes on with seq %d after %d events", e.Seq, len(entries))
			}
			for _, id := range []string{"mid " + event.Str("mid"), "cmid " + e.Sender + " " + event.Str("cmid")} {
				if seen[id] {
					t.Fatalf("the server's log holds %s twice", id)
				}
				seen[id] = true
			}
			entries = append(entries, e)
		}
		after, more = answer.JSON.Int("through"), answer.JSON.Bool("more")
	}
	return entries
}

// wantsLog checks that the server holds exactly these messages, in this order.
func wantsLog(t *testing.T, server *impart.Server, want ...entry) {
	t.Helper()
	for i := range want {
		want[i].Seq = int64(i) + 1
		if want[i].Kind == "" {
			want[i].Kind = "msg"
		}
	}
	if diff := cmp.Diff(want, log(t, server)); diff != "" {
		t.Fatalf("the server's log differs (-want +got):\n%s", diff)
	}
}

func ana(body string) entry { return entry{Sender: "u-ana", Body: body} }
func ben(body string) entry { return entry{Sender: "u-ben", Body: body} }

// eventually asks the server again and again until what it says is right.
func eventually(t *testing.T, what string, right func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !right(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s never came about", what)
		}
	}
}
