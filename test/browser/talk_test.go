package browser

import (
	"slices"
	"testing"

	"github.com/impart-im/impart/test/blackbox/impart"
)

// order is how a tick may change: never back, and never past a step that had not been true.
var order = []string{"waiting", "stored", "delivered", "read"}

func TestAMessageIsStoredDeliveredAndReadInThatOrder(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t)
	p := open(t, server.URL())
	p.ana.writes("Are you there?")
	p.ben.wants("Are you there?")
	sent := p.ana.wantsTick("Are you there?", "read")
	ticks := p.ana.ticks(sent.CMID)
	last := -1
	for _, tick := range ticks {
		step := slices.Index(order, tick)
		if step <= last {
			t.Fatalf("the ticks went %q", ticks)
		}
		last = step
	}
	if !slices.Contains(ticks, "delivered") {
		t.Errorf("the ticks went %q: delivered was never shown before read", ticks)
	}
	p.ben.writes("Yes.")
	p.ana.wants("Are you there?", "Yes.")
	p.ben.wantsTick("Yes.", "read")
	wantsLog(t, server, ana("Are you there?"), ben("Yes."))
	p.wantsNoFaults()
}

func TestTypingIsSeenAndForgottenWhenTheMessageComes(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	p := open(t, impart.Start(t).URL())
	eval[bool](p, `probe.fill('.panel[data-user="u-ana"] textarea', 'I was about to')`)
	p.wants("ben seeing ana type", `probe.panel('u-ben').querySelector('.typing').textContent.includes('Ana')`)
	p.ana.clicks(".composer button")
	p.ben.wants("I was about to")
	p.wants("the typing note gone", `probe.panel('u-ben').querySelector('.typing').textContent === ''`)
	p.wantsNoFaults()
}

func TestMarkupInABodyIsShownAsText(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t)
	p := open(t, server.URL())
	bodies := []string{
		`<script>globalThis.harmed = true</script>`,
		`<img src=x onerror="globalThis.harmed = true">`,
		"two\nlines, \u202eright to left, a link javascript:alert(1) and 你好 👋🏽",
	}
	var want []entry
	for _, body := range bodies {
		p.ana.pastes(body)
		want = append(want, ana(body))
	}
	p.ben.wants(bodies...)
	p.ana.wants(bodies...)
	if eval[bool](p, `Boolean(globalThis.harmed) || document.querySelectorAll('.messages :is(script, img, a)').length > 0`) {
		t.Error("a body became markup")
	}
	wantsLog(t, server, want...)
	p.wantsNoFaults()
}

func TestARecallTakesTheTextFromBothSides(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t)
	p := open(t, server.URL())
	p.ana.writes("my secret")
	p.ana.writes("something else")
	p.ben.wants("my secret", "something else")
	p.ana.wantsTick("something else", "read")
	p.ben.clicks(".switch")
	p.ben.wantsState("offline")
	p.ana.acts("my secret")
	p.ana.wants("You took back a message", "something else")
	p.ben.wants("my secret", "something else")
	p.ben.clicks(".switch")
	p.ben.wants("Ana took back a message", "something else")
	wantsLog(t, server, ana(""), ana("something else"), entry{Kind: "recall", Sender: "u-ana"})

	p.reload()
	p.ana.wants("You took back a message", "something else")
	p.ben.wants("Ana took back a message", "something else")
	if eval[bool](p, `probe.holds('my secret')`) {
		t.Error("a local store still holds the text that was taken back")
	}
	p.wantsNoFaults()
}

func TestARefusedMessageSaysWhyAndHoldsNothingUp(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t, "IM_MAX_BODY=200", "IM_RECALL_WINDOW=1ms")
	p := open(t, server.URL())
	p.ana.pastes("a text with a NUL \x00 in it")
	p.ana.writes("the next one")
	p.ben.wants("the next one")
	p.ana.wants("the next one", "a text with a NUL \x00 in it")
	refused := p.ana.wantsTick("a text with a NUL \x00 in it", "failed")
	if refused.Problem != "The server cannot keep this text as it is." || refused.Act != "Remove" {
		t.Errorf("beside the refused message stand %q and the button %q", refused.Problem, refused.Act)
	}
	p.ana.acts(refused.Body)
	p.ana.wants("the next one")

	long := string(slices.Repeat([]byte("long "), 50))
	p.ana.pastes(long + "!")
	if refused := p.ana.wantsTick(long+"!", "failed"); refused.Problem != "The text is too long." {
		t.Errorf("beside the long message stands %q", refused.Problem)
	}
	p.reload()
	p.ana.wantsTick(long+"!", "failed") // it waits for the user's decision, also over a reload
	p.ana.acts(long + "!")
	p.ana.wants("the next one")

	p.ana.acts("the next one") // too late to take it back
	p.wants("the refused recall", `probe.lines('u-ana')[0].problem === 'It can no longer be taken back.'`)
	p.ana.acts("the next one") // dismisses that
	p.wants("no note", `probe.lines('u-ana')[0].problem === ''`)
	wantsLog(t, server, ana("the next one"))
	p.wantsNoFaults()
}

func TestEnterSendsButNotWhileAWordIsComposed(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t)
	p := open(t, server.URL())
	eval[any](p, `probe.fill('.panel[data-user="u-ana"] textarea', '你好')`)
	for _, choosing := range []string{`isComposing: true`, `keyCode: 229`, `shiftKey: true`} {
		if sent := eval[bool](p, `probe.presses('u-ana', { key: 'Enter', `+choosing+` })`); sent {
			t.Errorf("Enter with %s was taken for sending", choosing)
		}
	}
	if sent := eval[bool](p, `probe.presses('u-ana', { key: 'Enter' })`); !sent {
		t.Error("Enter was not taken for sending")
	}
	p.ben.wants("你好")
	wantsLog(t, server, ana("你好"))
	p.wantsNoFaults()
}
