//go:build pictures

package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/impart-im/impart/test/blackbox/impart"
)

// TestPictures writes pictures of the page into IMPART_PICTURES, to be looked at by people.
func TestPictures(t *testing.T) {
	dir := os.Getenv("IMPART_PICTURES")
	if dir == "" {
		t.Fatal("IMPART_PICTURES names the folder for the pictures")
	}
	chromium.need(t)
	server := impart.Start(t)
	p := open(t, server.URL())
	p.ana.writes("Did the last one reach you?")
	p.ben.wants("Did the last one reach you?")
	p.ben.writes("It did. Both ticks, and then they turned blue.")
	p.ben.writes("Now kill the server and write me something.")
	p.ana.wantsTick("Did the last one reach you?", "read")
	p.ben.wantsTick("Now kill the server and write me something.", "read")
	p.ana.writes("No, not this one")
	p.ana.wantsTick("No, not this one", "read")
	p.ana.acts("No, not this one")
	p.ben.wants("Did the last one reach you?", "It did. Both ticks, and then they turned blue.", "Now kill the server and write me something.", "Ana took back a message")
	shoot := func(name string) { p.picture(filepath.Join(dir, name+".png")) }
	shoot("1-calm-light-en")
	p.scheme("dark")
	shoot("2-calm-dark-en")
	server.Kill()
	p.ana.wantsState("away")
	p.ana.writes("This one waits on my side.")
	p.ana.writes("So does this, behind it.")
	p.ben.clicks(".switch")
	p.ben.writes("I went offline on purpose.")
	p.ana.wantsWaiting(2)
	shoot("3-away-dark-en")
	p.do(chromedp.Click(chromedp.CSS(`[data-language="zh"]`)))
	shoot("4-away-dark-zh")
	p.scheme("light")
	shoot("5-away-light-zh")
	p.do(chromedp.EmulateViewport(375, 1500))
	shoot("6-narrow-light-zh")
	p.do(chromedp.Click(chromedp.CSS(`[data-language="en"]`)))
	p.scheme("dark")
	shoot("7-narrow-dark-en")
	p.do(chromedp.EmulateViewport(820, 1100))
	p.scheme("light")
	shoot("8-tablet-light-en")
	server.MustRestart(t)
	p.ana.wantsState("online")
	p.do(chromedp.EmulateViewport(1280, 860))
	other := p.sibling(server.URL())
	other.ana.wantsState("online")
	p.ana.wantsState("superseded")
	shoot("9-superseded")
	closed := tab(t, chromium.need(t), chromedp.WithNewBrowserContext())
	closed.visit(impart.Start(t, "IM_AUTH_HMAC_SECRET=0123456789abcdef0123456789abcdef").URL())
	closed.ana.wantsState("refused")
	closed.ben.wantsState("refused")
	closed.picture(filepath.Join(dir, "11-not-set-up.png"))
	other.visit(server.URL() + "/nothing")
	other.picture(filepath.Join(dir, "10-missing.png"))
}
