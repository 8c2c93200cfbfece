package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pseudoTerminal opens a terminal of its own: both of its ends.
func pseudoTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	raw, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = errors.Join(
			unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0),
			unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 90}))
		if failed == nil {
			number, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// terminalChat is `impart chat` on a terminal of its own.
type terminalChat struct {
	t    *testing.T
	tty  *os.File
	cmd  *exec.Cmd
	read sync.WaitGroup

	mu   sync.Mutex // guards what follows
	seen bytes.Buffer
	more chan struct{} // closed and made anew with each read
}

func startTerminalChat(t *testing.T, url string, args ...string) *terminalChat {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := pseudoTerminal(t)
	c := &terminalChat{t: t, tty: ours, more: make(chan struct{})}
	c.cmd = exec.Command(exe, append([]string{"chat"}, args...)...)
	c.cmd.Args[0] = "impart"
	// The terminal library closes its reader while it is read (bubbletea 2.1,
	// cancelreader 0.2), which the race detector would make the exit code of. What is
	// ours runs under it in internal/chat.
	c.cmd.Env = []string{"HOME=" + t.TempDir(), "TERM=xterm-256color", "IM_URL=" + url, endAtOnce + " exitcode=0"}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = theirs, theirs, theirs
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	c.read.Go(c.listen)
	return c
}

// listen reads until the other end is closed.
func (c *terminalChat) listen() {
	chunk := make([]byte, 4096)
	for {
		n, err := c.tty.Read(chunk)
		c.mu.Lock()
		c.seen.Write(chunk[:n])
		close(c.more)
		c.more = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (c *terminalChat) wants(text string) {
	c.t.Helper()
	late := time.After(20 * time.Second)
	for {
		c.mu.Lock()
		seen, more := c.seen.String(), c.more
		c.mu.Unlock()
		if strings.Contains(seen, text) {
			return
		}
		select {
		case <-more:
		case <-late:
			_ = c.cmd.Process.Kill()
			c.t.Fatalf("the terminal never shows %q, but\n%q", text, seen)
		}
	}
}

func (c *terminalChat) types(text string) {
	c.t.Helper()
	if _, err := c.tty.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

// ends waits for the end, and wants the terminal as it was.
func (c *terminalChat) ends() {
	c.t.Helper()
	late := time.AfterFunc(20*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("it ended with %v", err)
	}
	c.read.Wait()
	c.wants("\x1b[?1049l") // back from the alternate screen
	c.wants("\x1b[?25h")   // with a cursor
}

// The real program on a real terminal: it comes online, sends, leaves with Ctrl-C
// and at a signal, and sends later what it could not.
func TestChatOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, err := startServer(dir, filepath.Join(dir, "server.err"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if server.cmd.ProcessState == nil {
			_ = server.end(syscall.SIGKILL, -1)
		}
	})
	if code := run(t.Context(), []string{"admin", "conv", "put", "c-demo", "--url", server.url, "--member", "u-ana", "--member", "u-ben"}, process()); code != exitDone {
		t.Fatalf("exit code %d", code)
	}
	store := filepath.Join(dir, "ana.db")
	c := startTerminalChat(t, server.url, "--as", "u-ana", "--store", store)
	c.wants("online")
	c.types("hello\r")
	c.wants("· sent")
	if err := server.end(syscall.SIGKILL, -1); err != nil {
		t.Fatal(err)
	}
	c.wants("waiting until")
	c.types("later\r")
	c.wants("in the outbox")
	c.types("\x03")
	c.ends()
	c.wants("1 in the outbox, in " + store)

	again, err := startServer(dir, filepath.Join(dir, "again.err"), nil, "--listen", strings.TrimPrefix(server.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	server = again
	c = startTerminalChat(t, server.url, "--as", "u-ana", "--store", store)
	c.wants("later  \x1b[90m· sent")
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.ends()
}
