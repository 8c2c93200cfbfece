package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience bounds every wait for the page: reconnection may take the page's
// longest pause, on a busy machine.
const patience = time.Minute

//go:embed probe.js
var probe string

// page is one tab with the demo in it.
type page struct {
	t   *testing.T
	ctx context.Context
	ana panel
	ben panel

	mu     sync.Mutex
	faults []string
}

// panel is one user's half of the page.
type panel struct {
	page *page
	user string
}

// line is a message as a panel shows it.
type line struct {
	Body     string `json:"body"`
	State    string `json:"state"` // waiting, stored, delivered, read, failed; "" for the other user's
	Own      bool   `json:"own"`
	Recalled bool   `json:"recalled"`
	CMID     string `json:"cmid"`
	Seq      int64  `json:"seq"`
	Problem  string `json:"problem"`
	Act      string `json:"act"` // the words on its button, if it shows one
}

// open opens the demo in a profile of its own and waits until both users are connected.
func open(t *testing.T, url string) *page {
	t.Helper()
	p := tab(t, chromium.need(t), chromedp.WithNewBrowserContext())
	p.visit(url)
	p.ana.wantsState("online")
	p.ben.wantsState("online")
	return p
}

// sibling opens another tab of the same profile.
func (p *page) sibling(url string) *page {
	p.t.Helper()
	other := tab(p.t, p.ctx)
	other.visit(url)
	return other
}

func tab(t *testing.T, parent context.Context, options ...chromedp.ContextOption) *page {
	t.Helper()
	p := &page{t: t}
	p.ana, p.ben = panel{p, "u-ana"}, panel{p, "u-ben"}
	ctx, cancel := chromedp.NewContext(parent, append(options, chromedp.WithListener(p.heard))...)
	p.ctx = ctx
	t.Cleanup(func() {
		if t.Failed() {
			p.leave(t.Name())
		}
		cancel()
	})
	p.do(chromedp.EmulateViewport(1280, 860))
	call(p, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: probe})
	return p
}

// heard collects what a page must never have: script errors, and refusals by its own policy.
func (p *page) heard(event any) {
	var fault string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		fault = "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			fault += " " + e.ExceptionDetails.Exception.Description
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Source == cdplog.EntrySourceSecurity {
			fault = "refused by policy: " + e.Entry.Text
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			fault = "console.error: " + consoleText(e.Args)
		}
	}
	if fault != "" {
		p.mu.Lock()
		p.faults = append(p.faults, fault)
		p.mu.Unlock()
	}
}

func consoleText(args []*runtime.RemoteObject) string {
	var words []string
	for _, arg := range args {
		words = append(words, strings.TrimSpace(string(arg.Value)+" "+arg.Description))
	}
	return strings.Join(words, " ")
}

// wantsNoFaults fails the test when a script failed or the policy was broken.
func (p *page) wantsNoFaults() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, fault := range p.faults {
		p.t.Error("the page: " + fault)
	}
}

func (p *page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if chromedp.FromContext(p.ctx).Target == nil {
		ctx = p.ctx // the first run makes the tab, which lives as long as its context
	}
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatalf("driving the page: %v", err)
	}
}

func (p *page) visit(url string) { p.t.Helper(); p.do(chromedp.Navigate(url)) }
func (p *page) reload()          { p.t.Helper(); p.do(chromedp.Reload()) }

// eval gives the value of a script expression; promises are awaited.
func eval[T any](p *page, script string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience+5*time.Second)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("evaluating %s: %v", script, err)
	}
	return value
}

// wants waits until a script expression is true.
func (p *page) wants(what, expression string) {
	p.t.Helper()
	if !eval[bool](p, fmt.Sprintf("probe.until(() => (%s), %d)", expression, patience.Milliseconds())) {
		p.t.Fatalf("%s never came about; ana sees %s, ben sees %s", what, p.ana, p.ben)
	}
}

// loses makes frames to the page, for which the expression about frame is true, never arrive.
func (p *page) loses(expression string) {
	p.t.Helper()
	eval[any](p, "probe.lose((frame) => "+expression+")")
}

// leave keeps a picture of the page for whoever looks into a failure.
func (p *page) leave(name string) {
	dir := os.Getenv("IMPART_EVIDENCE")
	if dir == "" {
		return
	}
	p.picture(filepath.Join(dir, strings.ReplaceAll(name, "/", "-")+".png"))
}

func (p *page) picture(path string) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(path, picture, 0o600)
	}
	if err != nil {
		p.t.Logf("no picture of the page: %v", err)
	}
}

func (p *page) scheme(name string) {
	p.t.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
}

// call sends one command of the browser's protocol to the tab.
func call[P, R any](p *page, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	result, err := chromedp.Call(p.ctx, command, params)
	if err != nil {
		p.t.Fatalf("%s: %v", command.Method, err)
	}
	return result
}

// quoted is a text as a script literal.
func quoted(text string) string {
	literal, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(literal)
}

func (n panel) selector(part string) string {
	return fmt.Sprintf(`.panel[data-user="%s"] %s`, n.user, part)
}

func (n panel) String() string {
	var rows []string
	for _, each := range n.lines() {
		rows = append(rows, fmt.Sprintf("%d %s %q %s", each.Seq, each.State, each.Body, each.Problem))
	}
	return fmt.Sprintf("%s, %q, [%s]", n.text(".pill .words"), n.text(".waiting"), strings.Join(rows, " | "))
}

func (n panel) lines() []line {
	n.page.t.Helper()
	return eval[[]line](n.page, fmt.Sprintf("probe.lines(%s)", quoted(n.user)))
}

func (n panel) text(part string) string {
	n.page.t.Helper()
	return eval[string](n.page, fmt.Sprintf("document.querySelector(%s).textContent.trim()", quoted(n.selector(part))))
}

// writes types a text and presses Enter.
func (n panel) writes(text string) {
	n.page.t.Helper()
	n.page.do(chromedp.Focus(chromedp.CSS(n.selector("textarea"))), chromedp.KeyEvent(text))
	enter := input.DispatchKeyEventParams{Key: "Enter", Code: "Enter", Text: "\r", WindowsVirtualKeyCode: 13}
	for _, enter.Type = range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		call(n.page, input.DispatchKeyEvent, enter)
	}
	n.page.wants("an empty field", fmt.Sprintf("document.querySelector(%s).value === ''", quoted(n.selector("textarea"))))
}

// pastes puts a text into the field as it is, and sends it with the button.
func (n panel) pastes(text string) {
	n.page.t.Helper()
	eval[bool](n.page, fmt.Sprintf("probe.fill(%s, %s)", quoted(n.selector("textarea")), quoted(text)))
	n.clicks(".composer button")
}

func (n panel) clicks(part string) {
	n.page.t.Helper()
	n.page.do(chromedp.Click(chromedp.CSS(n.selector(part))))
}

// acts presses the button beside a message.
func (n panel) acts(body string) {
	n.page.t.Helper()
	if !eval[bool](n.page, fmt.Sprintf("probe.act(%s, %s)", quoted(n.user), quoted(body))) {
		n.page.t.Fatalf("%s has no button beside %q: %s", n.user, body, n)
	}
}

func (n panel) wantsState(state string) {
	n.page.t.Helper()
	n.page.wants(n.user+" "+state, fmt.Sprintf("probe.panel(%s).dataset.state === %s", quoted(n.user), quoted(state)))
}

// wantsWaiting waits until the panel says that so many messages wait.
func (n panel) wantsWaiting(count int) {
	n.page.t.Helper()
	n.page.wants(fmt.Sprintf("%s with %d waiting", n.user, count), fmt.Sprintf("probe.waiting(%s) === %d", quoted(n.user), count))
}

// wants waits until the panel shows exactly these texts, in this order.
func (n panel) wants(bodies ...string) {
	n.page.t.Helper()
	list, err := json.Marshal(bodies)
	if err != nil {
		n.page.t.Fatal(err)
	}
	n.page.wants(fmt.Sprintf("%s with %q", n.user, bodies),
		fmt.Sprintf("JSON.stringify(probe.lines(%s).map((line) => line.body)) === JSON.stringify(%s)", quoted(n.user), list))
}

// wantsTick waits until the user's own message shows a state, and gives the message.
func (n panel) wantsTick(body, state string) line {
	n.page.t.Helper()
	n.page.wants(fmt.Sprintf("%s's %q as %s", n.user, body, state),
		fmt.Sprintf("probe.lines(%s).some((line) => line.body === %s && line.state === %s)", quoted(n.user), quoted(body), quoted(state)))
	lines := n.lines()
	return lines[slices.IndexFunc(lines, func(each line) bool { return each.Body == body })]
}

// ticks are the states that a message has shown, in order, since the page was loaded.
func (n panel) ticks(cmid string) []string {
	n.page.t.Helper()
	return eval[[]string](n.page, fmt.Sprintf("probe.ticks(%s, %s)", quoted(n.user), quoted(cmid)))
}
