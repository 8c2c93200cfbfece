package sqlstore

import (
	"database/sql"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// An event whose ext is no JSON any more would make every frame that it is in
// unreadable. Nobody is given it, the log names it, and its conversation alone is held up.
func TestADamagedExtHoldsUpItsConversationAlone(t *testing.T) {
	var log lockedBuffer
	w := newWorld(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	aDamagedExt(t, w, &log, func(change string) {
		db, err := sql.Open("sqlite", filepath.Join(w.dir, "impart.db"))
		w.must(err)
		defer db.Close()
		_, err = db.ExecContext(t.Context(), "UPDATE events "+change)
		w.must(err)
	})
}

func TestPostgresADamagedExtHoldsUpItsConversationAlone(t *testing.T) {
	var log lockedBuffer
	w, p := newPgWorld(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	aDamagedExt(t, w, &log, func(change string) { p.exec(t, "UPDATE "+p.name+".events "+change) })
}

func TestMySQLADamagedExtHoldsUpItsConversationAlone(t *testing.T) {
	var log lockedBuffer
	w, p := newMyWorld(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	aDamagedExt(t, w, &log, func(change string) { p.exec(t, "UPDATE events "+change) })
}

func aDamagedExt(t *testing.T, w *world, log *lockedBuffer, damage func(change string)) {
	const ext = `{"reply_to":1}`
	for _, conv := range []impart.ConvID{"hurt", "well"} {
		w.group(conv, "ana")
		for _, cmid := range []impart.CMID{"1", "2"} {
			a := w.msg("ana", conv, impart.CMID(conv)+cmid, "x")
			a.Ext = []byte(ext)
			w.sends(hashed(a))
		}
	}
	page := func(conv impart.ConvID, q store.PageQuery) error {
		q.User, q.Conv, q.Limit, q.MaxBytes = "ana", conv, 10, impart.MaxPage
		_, err := w.Page(t.Context(), q)
		return err
	}
	pushed := func() error {
		_, err := w.Range(t.Context(), "hurt", 1, 2, 10)
		return err
	}
	whole := func(want string) {
		t.Helper()
		convs, err := w.Convs(t.Context(), "ana", "", "", 10, impart.MaxPage)
		w.must(err)
		var listed []string
		for _, c := range convs.Convs {
			if listed = append(listed, string(c.Conv)); c.Last == nil {
				listed = append(listed, "without its last")
			}
		}
		if got := strings.Join(listed, ", "); got != want {
			t.Errorf("the list is %q, want %q", got, want)
		}
	}
	whole("hurt, well")
	for _, torn := range []string{`{"reply_to":`, `[1]`, `7`, `{"a":1}x`} {
		damage(`SET ext = '` + torn + `' WHERE conv_id = 'hurt' AND seq = 2`)
		for name, err := range map[string]error{
			"forward": page("hurt", store.PageQuery{}), "back": page("hurt", store.PageQuery{Before: 3, Back: true}), "pushed": pushed(),
		} {
			if e := impart.AsError(err); e == nil || e.Code != impart.Unavailable || e.RetryAfter == 0 {
				t.Errorf("%s: %s is answered with %v", torn, name, err)
			}
		}
		w.must(page("well", store.PageQuery{}))
		w.must(page("hurt", store.PageQuery{After: 2})) // whoever has it already goes on
		whole("hurt, without its last, well")
	}
	if got := log.String(); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, "conv=hurt seq=2") {
		t.Errorf("the log does not name the damage once:\n%s", got)
	}
	if out := w.Append(t.Context(), []store.Append{w.recall("ana", "hurt", "r", 2)}); out[0].Err != nil {
		t.Fatal(out[0].Err)
	}
	w.whole("ana", "hurt")
	whole("hurt, well")
}
