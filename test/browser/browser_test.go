package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/impart-im/impart/test/blackbox/impart"
)

func TestMain(m *testing.M) {
	code := impart.Main(m)
	if err := chromium.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "browser: stopping Chromium:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// names are what Chromium is called; IMPART_BROWSER comes first.
var names = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// chromium is the one browser process of a test run. Each test has its own
// profile in it, so nothing is shared between tests.
var chromium browser

type browser struct {
	once   sync.Once
	ctx    context.Context
	cancel []func()
	dir    string
	err    error
}

// need starts the browser, or skips the test where there is none and that is allowed.
func (b *browser) need(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("drives a browser against the real binary: run without -short")
	}
	path, err := find()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	b.once.Do(func() { b.err = b.start(path) })
	if b.err != nil {
		t.Fatalf("starting %s: %v", path, b.err)
	}
	return b.ctx
}

func find() (string, error) {
	candidates := names
	if named := os.Getenv("IMPART_BROWSER"); named != "" {
		candidates = []string{named}
	}
	for _, name := range candidates {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("THE DEMO PAGE IS NOT TESTED: no browser among %q; install Chromium or name one in IMPART_BROWSER", candidates)
}

func (b *browser) start(path string) error {
	dir, err := os.MkdirTemp("", "impart-browser-")
	if err != nil {
		return err
	}
	b.dir = dir
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.UserDataDir(dir),
		chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("force-prefers-reduced-motion", true), // moving dots are drawn without a GPU here
	)
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	b.cancel = append(b.cancel, cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	b.cancel = append(b.cancel, cancel)
	b.ctx = ctx
	return chromedp.Do(ctx) // starts it
}

// stop ends the browser and removes its profile.
func (b *browser) stop() error {
	if b.ctx == nil {
		return nil
	}
	err := chromedp.Cancel(b.ctx)
	for i := len(b.cancel) - 1; i >= 0; i-- {
		b.cancel[i]()
	}
	// Its children may still be writing for a moment.
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if gone := os.RemoveAll(b.dir); gone == nil || time.Now().After(deadline) {
			if err == nil {
				err = gone
			}
			return err
		}
	}
}
