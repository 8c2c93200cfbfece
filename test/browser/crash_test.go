package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/impart-im/impart/test/blackbox/impart"
)

func TestTheServerIsKilledInMidConversation(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t)
	p := open(t, server.URL())
	p.ana.writes("one")
	p.ben.wants("one")
	p.ben.writes("two")
	p.ana.wants("one", "two")
	p.ben.wantsTick("two", "read")

	server.Kill()
	p.ana.wantsState("away")
	p.ben.wantsState("away")
	p.ana.writes("three")
	p.ana.writes("four")
	p.ben.writes("five")
	p.ana.wantsWaiting(2)
	p.ben.wantsWaiting(1)
	p.ana.wantsTick("three", "waiting")
	if got, want := p.ana.text(".waiting"), "2 messages wait while the server is away"; got != want {
		t.Errorf("ana reads %q, want %q", got, want)
	}

	server.MustRestart(t)
	p.ana.wantsState("online")
	p.ben.wantsState("online")
	p.ana.wantsTick("four", "read")
	p.ben.wantsTick("five", "read")
	p.ana.wantsWaiting(0)
	p.ben.wantsWaiting(0)

	// Whose came first is the server's to say; the order within each is the order of writing.
	want := bodies(log(t, server))
	if got := strings.Join(want, " "); got != "one two three four five" && got != "one two three five four" && got != "one two five three four" {
		t.Fatalf("the server's log is %q", got)
	}
	p.ana.wants(want...)
	p.ben.wants(want...)

	p.reload()
	p.ana.wants(want...)
	p.ben.wants(want...)
	p.ana.wantsTick("four", "read")
	wantsNoDoubt(t, p, server)
	p.wantsNoFaults()
}

func TestWhatWaitsSurvivesThePageToo(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t)
	p := open(t, server.URL())
	p.ana.writes("before")
	p.ben.wants("before")
	p.ana.clicks(".switch")
	p.ana.wantsState("offline")
	p.ana.writes("while offline")
	p.ana.writes("never mind")
	p.ana.wantsWaiting(2)
	p.ana.acts("never mind") // was never tried: it is taken out unsent
	p.ana.wantsWaiting(1)
	p.ben.writes("meanwhile")
	p.ben.wantsTick("meanwhile", "stored")
	p.ana.wants("before", "while offline")
	p.reload() // a loaded page is online
	p.ana.wants("before", "meanwhile", "while offline")
	p.ben.wants("before", "meanwhile", "while offline")
	p.ana.wantsTick("while offline", "read")
	wantsLog(t, server, ana("before"), ben("meanwhile"), ana("while offline"))
	p.wantsNoFaults()
}

func TestLostRepliesMakeNoSecondMessage(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t)
	p := open(t, server.URL())
	p.loses(`frame.t === 'sent'`)
	p.ana.writes("did you get this?")
	p.wants("a reply lost on its way", `probe.lost() > 0`) // it is stored, and nobody told ana
	p.ben.wants("did you get this?")
	p.ana.wantsTick("did you get this?", "waiting")
	p.loses("false")
	eval[any](p, `probe.cut()`)
	p.ana.wantsTick("did you get this?", "read")
	p.ana.wants("did you get this?")
	wantsLog(t, server, ana("did you get this?"))
	wantsNoDoubt(t, p, server)
	p.wantsNoFaults()
}

func TestLostPushesAreFetched(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t, "IM_SWEEP_MS=300", "IM_RETRY_MS=300,300,300,300")
	p := open(t, server.URL())
	p.loses(`frame.t === 'event'`)
	p.ana.writes("one")
	p.ana.writes("two")
	p.ben.wants("one", "two")
	p.ana.wantsTick("two", "read")
	if lost := eval[int](p, `probe.lost()`); lost == 0 {
		t.Error("no push was lost: the test shows nothing")
	}
	wantsLog(t, server, ana("one"), ana("two"))
	p.wantsNoFaults()
}

func TestAnOlderBackupIsMadeGoodByWhatThePageHolds(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	dir := t.TempDir()
	server := impart.StartWith(t, impart.Config{Dir: dir})
	p := open(t, server.URL())
	p.ana.writes("kept")
	p.ben.wants("kept")
	p.ana.wantsTick("kept", "read")
	server.Kill()
	backup := read(t, dir)
	server.MustRestart(t)
	p.ana.wantsState("online")
	p.ben.wantsState("online")
	p.ana.writes("undone by the restore")
	p.ben.wants("kept", "undone by the restore")
	p.ben.writes("this too")
	p.ana.wants("kept", "undone by the restore", "this too")
	p.ben.wantsTick("this too", "read")

	server.Kill()
	restore(t, dir, backup)
	server.MustRestart(t)
	server.Admin(t, "POST", "epoch", nil)
	eventually(t, "the undone messages stored anew", func() bool { return len(log(t, server)) == 3 })
	want := bodies(log(t, server))
	if got := strings.Join(want, ", "); got != "kept, undone by the restore, this too" && got != "kept, this too, undone by the restore" {
		t.Fatalf("the server's log is %q", got)
	}
	p.ana.wants(want...)
	p.ben.wants(want...)
	wantsNoDoubt(t, p, server)
	p.reload()
	p.ana.wants(want...)
	p.ben.wants(want...)
	p.wantsNoFaults()
}

// wantsNoDoubt waits until the server knows that both of the page's devices have
// everything, and checks that their stores hold nothing more to send.
func wantsNoDoubt(t *testing.T, p *page, server *impart.Server) {
	t.Helper()
	head := int64(len(log(t, server)))
	for _, side := range []panel{p.ana, p.ben} {
		device := eval[string](p, `probe.device(`+quoted(side.user)+`)`)
		eventually(t, side.user+"'s device with everything acknowledged", func() bool {
			devices := server.Admin(t, "GET", "devices/"+device, nil).JSON.List("devices")
			if len(devices) != 1 {
				t.Fatalf("the server knows %d devices by the name of %s", len(devices), device)
			}
			cursors := devices[0].List("cursors")
			return len(cursors) == 1 && cursors[0].Int("delivered") == head
		})
	}
	if left := eval[int](p, `probe.outbox()`); left != 0 {
		t.Errorf("%d messages with a final answer are in the outbox still", left)
	}
}

func bodies(entries []entry) []string {
	var texts []string
	for _, e := range entries {
		texts = append(texts, e.Body)
	}
	return texts
}

// read gives the files of a stopped server's store.
func read(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "impart.db*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no store in %s: %v", dir, err)
	}
	files := make(map[string][]byte)
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = raw
	}
	return files
}

// restore puts those files back in place of what is there now.
func restore(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name := range read(t, dir) {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for name, raw := range files {
		if err := os.WriteFile(name, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
