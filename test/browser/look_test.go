package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/impart-im/impart/test/blackbox/impart"
)

func TestBothLanguages(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	p := open(t, impart.Start(t).URL())
	if missing := eval[[]string](p, `import('/js/i18n.js').then(({ words }) => [
		...Object.keys(words.en).filter((key) => !words.zh[key]),
		...Object.keys(words.zh).filter((key) => !words.en[key]),
	])`); len(missing) > 0 {
		t.Errorf("words in one language only: %q", missing)
	}
	wantsWords(t, p, "en", "Connected", "Send")
	p.do(chromedp.Click(chromedp.CSS(`[data-language="zh"]`)))
	wantsWords(t, p, "zh-CN", "已连接", "发送")
	p.ana.writes("你好")
	p.ben.wants("你好")
	p.ana.wantsTick("你好", "read")
	p.ana.acts("你好")
	p.ben.wants("Ana 撤回了一条消息")
	p.reload()
	p.ana.wantsState("online")
	wantsWords(t, p, "zh-CN", "已连接", "发送")
	p.do(chromedp.Click(chromedp.CSS(`[data-language="en"]`)))
	p.ben.wants("Ana took back a message")
	p.wantsNoFaults()
}

func wantsWords(t *testing.T, p *page, language, pill, send string) {
	t.Helper()
	p.wants("the page in "+language, fmt.Sprintf("document.documentElement.lang === %s && probe.panel('u-ana').querySelector('.pill .words').textContent === %s",
		quoted(language), quoted(pill)))
	if got := p.ana.text(".composer button"); got != send {
		t.Errorf("the button says %q, want %q", got, send)
	}
	if holes := eval[[]string](p, `probe.wordless()`); len(holes) > 0 {
		t.Errorf("without words in %s: %q", language, holes)
	}
}

func TestTheBrowsersLanguageIsTheFirstChoice(t *testing.T) {
	t.Parallel()
	server := impart.Start(t)
	p := tab(t, chromium.need(t), chromedp.WithNewBrowserContext())
	agent := eval[string](p, `navigator.userAgent`)
	call(p, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: agent, AcceptLanguage: "zh-TW,zh"})
	p.visit(server.URL())
	p.ana.wantsState("online")
	wantsWords(t, p, "zh-CN", "已连接", "发送")
	p.wantsNoFaults()
}

func TestANarrowScreenStacksThePanelsAndScrollsNothingSideways(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	p := open(t, impart.Start(t).URL())
	p.ana.pastes("a_word_that_is_much_longer_than_the_screen_of_a_telephone_is_wide_and_has_no_place_to_break_anywhere_at_all")
	p.wants("side by side", `probe.box('u-ana').top === probe.box('u-ben').top && probe.box('u-ana').right < probe.box('u-ben').left`)
	for _, width := range []int64{320, 375, 700} {
		p.do(chromedp.EmulateViewport(width, 700))
		p.wants(fmt.Sprintf("stacked at %d", width), `probe.box('u-ana').bottom < probe.box('u-ben').top && probe.box('u-ana').left === probe.box('u-ben').left`)
		if spill := eval[[]string](p, `probe.spill()`); len(spill) > 0 {
			t.Errorf("at a width of %d these stand out: %q", width, spill)
		}
	}
	p.wantsNoFaults()
}

func TestEverythingHasANameAndEnoughContrast(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t)
	p := open(t, server.URL())
	p.ana.writes("a message with every tick")
	p.ben.wants("a message with every tick")
	p.ben.writes("and an answer")
	p.ana.wants("a message with every tick", "and an answer")
	p.ana.wantsTick("a message with every tick", "read")
	server.Kill()
	p.ana.wantsState("away")
	p.ana.writes("one that waits")
	p.ana.wantsWaiting(1)
	if nameless := eval[[]string](p, `probe.nameless()`); len(nameless) > 0 {
		t.Errorf("controls without a name: %q", nameless)
	}
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		if faint := eval[[]string](p, `probe.faint()`); len(faint) > 0 {
			t.Errorf("too little contrast in %s: %q", scheme, faint)
		}
	}
	p.wantsNoFaults()
}

func TestAServerWithoutTheDevLoginSaysWhatToDo(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	for _, story := range []struct{ name, setting, want string }{
		{"signed tokens", "IM_AUTH_HMAC_SECRET=0123456789abcdef0123456789abcdef", "dev login"},
		{"a closed admin API", "IM_ADMIN_TOKEN=0123456789abcdef", "IM_ADMIN_TOKEN"},
	} {
		t.Run(story.name, func(t *testing.T) {
			server := impart.Start(t, story.setting)
			p := tab(t, chromium.need(t), chromedp.WithNewBrowserContext())
			p.visit(server.URL())
			p.wants("words that help", `document.querySelector('.setup').checkVisibility() && document.querySelector('.setup p').textContent.includes(`+quoted(story.want)+`)`)
			p.wantsNoFaults()
		})
	}
}
