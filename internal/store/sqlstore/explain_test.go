package sqlstore

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// scans are the statements that may go through a whole table, with the reason.
var scans = map[string]string{
	"SELECT v.conv_id FROM conversations v JOIN events e": "retention looks at one event of every conversation, seldom, and beside the writer",
}

// heard collects the texts of all statements.
type heard struct {
	mu    sync.Mutex
	texts map[string]int
}

func (h *heard) hook(query string, args []any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts[query] = len(args)
	return nil
}

// Every statement of every method goes by an index. The statements are gathered
// from a store in which everything is done once.
func TestEveryQueryGoesByAnIndex(t *testing.T) {
	h := &heard{texts: map[string]int{}}
	w := newWorld(t, Options{hook: h.hook, look: h.hook})
	everything(w)
	scan := regexp.MustCompile(`(?m)^(SCAN (\w+).*)$`)
	if !scan.MatchString(planOf(w, "SELECT seq FROM events WHERE body = ?", 1)) {
		t.Fatal("a scan is not recognised: the test would find nothing")
	}
	tried := 0
	for _, query := range slices.Sorted(maps.Keys(h.texts)) {
		verb, _, _ := strings.Cut(query, " ")
		if !slices.Contains([]string{"SELECT", "UPDATE", "DELETE", "INSERT"}, verb) {
			continue
		}
		tried++
		if got := planOf(w, query, h.texts[query]); strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("%s\n\tsorts:\n%s", query, got)
		}
		for _, found := range scan.FindAllStringSubmatch(planOf(w, query, h.texts[query]), -1) {
			reason := ""
			for start, why := range scans {
				if strings.HasPrefix(query, start) {
					reason = why
				}
			}
			small := found[2] == "meta" || found[2] == "m" || found[2] == "counted" // one row each
			if !small && reason == "" {
				t.Errorf("%s\n\tdoes a %s", query, found[1])
			}
		}
	}
	if tried < 40 {
		t.Errorf("only %d statements were heard", tried)
	}
}

// The statements on the road of a message, and the index that each must use.
func TestHotQueries(t *testing.T) {
	w := newWorld(t, Options{DedupRetention: true})
	for query, want := range map[string]string{
		"SELECT 1 FROM msg_dedup WHERE user_id = ? AND cmid = ?": "COVERING INDEX sqlite_autoindex_msg_dedup_1 (cmid=? AND user_id=?)",
		selectFlow:           "SEARCH c USING PRIMARY KEY (user_id=? AND device_id=? AND conv_id=?)",
		selectView:           "SEARCH p USING PRIMARY KEY (conv_id=? AND user_id=?)",
		selectForward:        "sqlite_autoindex_events_1 (conv_id=? AND seq>? AND seq<?)",
		selectBack:           "sqlite_autoindex_events_1 (conv_id=? AND seq>? AND seq<?)",
		selectRecallsForward: "INDEX events_recalls (conv_id=? AND seq>? AND seq<?)",
		selectRecallsBelow:   "COVERING INDEX events_recalls",
		"SELECT conv_id, seq, mid, created_at, hash FROM msg_dedup WHERE user_id = ? AND cmid = ?": "sqlite_autoindex_msg_dedup_1 (cmid=? AND user_id=?)",
		selectLogged: "events_by_cmid (conv_id=? AND sender=? AND cmid=?)",
		"SELECT user_id, cmid FROM msg_dedup WHERE recalled = 0 AND created_at < ? ORDER BY created_at LIMIT ?": "msg_dedup_by_time (created_at<?)",
		sqliteStatements.written: "conversations_by_time (updated_at>?)",
	} {
		got := planOf(w, query, strings.Count(query, "?"))
		if !strings.Contains(got, want) || strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("%s\n\tis done by\n%s\twant %s and no sorting", query, got, want)
		}
	}
}

func planOf(w *world, query string, args int) string {
	w.t.Helper()
	var out strings.Builder
	err := w.read(w.t.Context(), func(c session) error {
		return c.query("EXPLAIN QUERY PLAN "+query, func(r row) error {
			fmt.Fprintln(&out, r.str(3))
			return nil
		}, make([]any, args)...)
	})
	if err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
	return out.String()
}

// everything calls every method once, on every branch that has a statement.
func everything(w *world) {
	w.t.Helper()
	ctx := w.t.Context()
	w.group("c", "ana", "ben")
	for _, s := range steps(w) {
		w.must(s.do(w))
	}
	w.group("c", "ana", "cy", "eve")
	// With dedup rows gone, events decide.
	follow := w.msg("ana", "c", "3", "third")
	follow.Prev = "2"
	w.sends(follow)
	w.must(w.stored(follow, w.msg("cy", "c", "4", "fourth")))
	w.must(second(w.Visit(ctx, "dan", "d", "x")))
	w.must(second(w.Visit(ctx, "dan", "d", "x")))
	w.must(second(w.Page(ctx, store.PageQuery{User: "ana", Conv: "c", After: 3, AfterMID: "mid-000002", Limit: 10, MaxBytes: 1 << 20, Back: true, Before: 4})))
	_, err := w.Page(ctx, store.PageQuery{User: "ana", Conv: "c", After: 3, AfterMID: "another", Limit: 10, MaxBytes: 1 << 20})
	if impart.CodeOf(err) != impart.EpochChanged {
		w.t.Fatal(err)
	}
	for _, user := range []impart.UserID{"ana", "ben", "cy"} {
		w.must(second(w.Page(ctx, store.PageQuery{User: user, Conv: "c", Limit: 10, MaxBytes: 1 << 20})))
		w.must(second(w.Page(ctx, store.PageQuery{User: user, Conv: "c", Limit: 10, MaxBytes: 1 << 20, Back: true, Before: 4})))
		w.must(second(w.Convs(ctx, user, "d", "", 10, 1<<20)))
	}
	w.must(second(w.Hello(ctx, store.Hello{User: "cy", Device: "d", Install: "x", History: new(int64)})))
	w.must(second(w.Range(ctx, "c", 1, 10, 10)))
	w.must(second(w.Written(ctx, 1, 10)))
	w.must(second(w.Lagging(ctx, store.LaggingQuery{User: "ana", Device: "d", Install: 1, Limit: 10, All: true})))
	w.must(second(w.Lags(ctx, []impart.LagQuery{{Session: impart.Session{User: "ana", Device: "d", Install: 1}, Conv: "c"}})))
	w.must(second(w.Report(ctx, impart.Who{User: "ana", Conv: "c", Seq: 3, Limit: 10})))
	w.must(second(w.Delivery(ctx, "c", 3)))
	w.must(second(w.Devices(ctx, "d", "")))
	w.must(second(w.Devices(ctx, "d", "ana")))
	w.must(second(w.Standings(ctx, []impart.Session{{User: "ana", Device: "d"}, {User: "nobody", Device: "d"}})))
	w.must(second(w.User(ctx, "ana")))
	w.must(second(w.Conversation(ctx, "c")))
	w.must(second(w.Audience(ctx, "c")))
	w.must(second(w.Meta(ctx)))
	w.must(second(w.RaiseEpoch(ctx, 0)))
	w.must(second(w.Settings(ctx)))
	w.must(w.Ping(ctx))
}
