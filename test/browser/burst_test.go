package browser

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/impart"
)

func TestAKillInTheMiddleOfABurstKeepsTheOrder(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t)
	p := open(t, server.URL())
	const count = 80
	eval[any](p, fmt.Sprintf(`probe.burst('u-ana', %d)`, count))
	p.wants("the first of the burst stored", `probe.lines('u-ana').some((line) => line.seq > 0)`)
	server.Kill()
	p.ana.wantsState("away")
	server.MustRestart(t)
	var texts []string
	var want []entry
	for i := range count {
		texts = append(texts, fmt.Sprintf("burst %d", i))
		want = append(want, ana(texts[i]))
	}
	p.ben.wants(texts...)
	p.ana.wants(texts...)
	wantsLog(t, server, want...)
	wantsNoDoubt(t, p, server)
	p.wantsNoFaults()
}

func TestAMessageInTroubleIsNotOvertaken(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t)
	p := open(t, server.URL())
	eval[any](p, `probe.refuse((frame) => frame.body === 'burst 0' && probe.refused() < 3)`)
	eval[any](p, `probe.burst('u-ana', 4)`)
	p.ben.wants("burst 0", "burst 1", "burst 2", "burst 3")
	if refused := eval[int](p, `probe.refused()`); refused != 3 {
		t.Errorf("the first message was refused %d times, want 3: the test shows nothing", refused)
	}
	wantsLog(t, server, ana("burst 0"), ana("burst 1"), ana("burst 2"), ana("burst 3"))
	p.wantsNoFaults()
}

func TestADrainingServerIsLeftAndFoundAgain(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t)
	p := open(t, server.URL())
	p.ana.writes("before the drain")
	p.ben.wants("before the drain")
	if code, took := server.Terminate(15 * time.Second); code != 0 {
		t.Fatalf("the server ended with %d after %v", code, took)
	}
	p.ana.wantsState("away")
	p.ana.writes("during the drain")
	p.ana.wantsWaiting(1)
	server.MustRestart(t)
	p.ben.wants("before the drain", "during the drain")
	wantsLog(t, server, ana("before the drain"), ana("during the drain"))
	p.wantsNoFaults()
}

func TestAServerThatHangsIsNoticed(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t)
	p := open(t, server.URL())
	p.ana.writes("one")
	p.ben.wants("one")
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.ana.writes("into the void")
	p.ana.wantsState("away")
	p.ben.wantsState("away")
	if err := server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.ben.wants("one", "into the void")
	p.ana.wantsTick("into the void", "read")
	wantsLog(t, server, ana("one"), ana("into the void"))
	p.wantsNoFaults()
}

func TestALongLogIsCaughtUpInPagesAndShownFromItsEnd(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t)
	server.Admin(t, http.MethodPut, "conversations/c-demo", map[string]any{"kind": "direct", "members": []string{"u-ana", "u-ben"}})
	const count = 450
	header := http.Header{"Authorization": {"Bearer dev:u-ana"}}
	for i := range count {
		sent := server.Request(t, http.MethodPost, "/api/msg/send", header,
			map[string]any{"conv_id": "c-demo", "client_msg_id": fmt.Sprintf("m-%d", i), "text": fmt.Sprintf("number %d", i)})
		if sent.Status != http.StatusOK {
			t.Fatalf("sending: %s", sent)
		}
	}
	p := open(t, server.URL())
	p.wants("the newest", `probe.lines('u-ben').at(-1)?.body === 'number 449'`)
	wantsNoDoubt(t, p, server)
	p.reload()
	p.wants("the newest at once, and a way to the older ones", `probe.lines('u-ben').length === 200 && probe.shown('u-ben', '.earlier')`)
	p.ben.clicks(".earlier")
	p.wants("an older page", `probe.lines('u-ben').length === 400`)
	p.ben.clicks(".earlier")
	p.wants("everything, in order", `probe.lines('u-ben').map((line) => line.body).join() === Array.from({ length: 450 }, (_, i) => 'number ' + i).join()`)
	p.wants("no more to show", `!probe.shown('u-ben', '.earlier')`)

	p.ana.writes("one more")
	p.wants("a word about the new message below", `probe.shown('u-ben', '.newer')`)
	if newest := eval[line](p, `probe.lines('u-ana').at(-1)`); newest.State == "read" {
		t.Error("a message that is out of sight was taken for read")
	}
	p.ben.clicks(".newer")
	p.ana.wantsTick("one more", "read")
	p.wantsNoFaults()
}
