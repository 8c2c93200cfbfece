package blackbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/impart-im/impart/test/blackbox/impart"
)

// Kind 17: what looks like SQL, a glob or a key separator is only text.
func TestSecurity17_InjectionByIds(t *testing.T) {
	w := onShared(t)
	for i, id := range []string{"' OR 1=1 --", "\"; DROP TABLE events; --", "%", "_", "*", "a:b", "{x}", "c-\\", "$1", "?1", "/*", "');--"} {
		conv := w.ns + id
		w.srv.Admin(t, "PUT", "conversations/"+escape(conv), F{"kind": "group", "members": w.users("ana", "ben")})
		c := w.online("ana", "d"+id)
		if f := c.send(conv, "k"+id, id); f.Int("seq") != 1 {
			t.Errorf("%q: %s", id, f.Object)
		}
		events, _ := c.log(conv, 0)
		if len(events) != 1 || events[0].Body != id {
			t.Errorf("%q: the log holds %+v", id, events)
		}
		if n := len(c.convsOf()); n != i+1 {
			t.Errorf("%q: %d conversations, want %d", id, n, i+1)
		}
		c.refuse("NOT_MEMBER", F{"t": "sync", "conv": w.ns + id + "%", "after": 0})
	}
}

func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02X", s[i])
	}
	return b.String()
}

// Kind 20: a store that cannot be opened stops the start with one line and no stack trace.
func TestSecurity20_TheStoreCannotBeOpened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.db")
	if err := os.WriteFile(broken, []byte(strings.Repeat("this is no database ", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, store := range map[string]string{
		"no database": "sqlite:" + broken, "a directory": "sqlite:" + dir, "under a file": "sqlite:" + broken + "/x.db",
		"an unknown kind": "oracle://somewhere", "nothing": "sqlite:",
	} {
		ctx, cancel := testContext(t, patience)
		cmd := impart.Command(t, impart.Config{Env: []string{"IM_STORE=" + store}})
		out := endsWithin(ctx, t, cmd)
		cancel()
		if code := cmd.ProcessState.ExitCode(); code != 1 && code != 2 {
			t.Errorf("%s: exit code %d, want 1 or 2", name, code)
		}
		if strings.Contains(out, "goroutine ") || strings.Contains(out, "panic") || strings.Contains(out, "ready ") {
			t.Errorf("%s: %s", name, out)
		}
		if strings.TrimSpace(out) == "" {
			t.Errorf("%s: ended without a word", name)
		}
	}
}

// The command line: wrong settings end with exit code 2 and a line that names the setting.
func TestWrongSettingsAreNamed(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"IM_SWEEP_MS=soon", "IM_RETRY_MS=1000,x", "IM_MAX_BODY=-1", "IM_MAX_INFLIGHT=many", "IM_RECALL_WINDOW=yesterday", "IM_LISTEN=nowhere"} {
		ctx, cancel := testContext(t, patience)
		cmd := impart.Command(t, impart.Config{Env: []string{setting}})
		out := endsWithin(ctx, t, cmd)
		cancel()
		name, _, _ := strings.Cut(setting, "=")
		if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(out, name) {
			t.Errorf("%s: exit code %d, output %q; want 2 and a line that names %s", setting, code, out, name)
		}
	}
	for _, args := range [][]string{{"nonsense"}, {"serve", "--nonsense"}, {"serve", "--config", "/does/not/exist.yaml"}} {
		ctx, cancel := testContext(t, patience)
		cmd := impart.Command(t, impart.Config{Args: args})
		out := endsWithin(ctx, t, cmd)
		cancel()
		if code := cmd.ProcessState.ExitCode(); code != 2 || strings.TrimSpace(out) == "" {
			t.Errorf("impart %v: exit code %d, output %q; want 2 and a line that says why", args, code, out)
		}
	}
}
