package lab

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/app"
)

// AppInMemory is the twin whose applications keep nothing on the disk.
var AppInMemory = Sabotage{Name: "app-in-memory", What: "the application keeps its store in memory"}

// App is an application on the Go SDK, as a process of its own. Over kills and
// starts it keeps its store.
type App struct {
	b     *Bench
	Name  string // on the timeline
	User  impart.UserID
	url   string
	store string

	mu     sync.Mutex // guards what follows
	cmd    *exec.Cmd
	in     io.WriteCloser
	done   chan struct{} // closed when all that the process has told was read
	starts int
	lines  []app.Line
	// lastStart is how many lines there were at the last start.
	lastStart int
}

// App makes an application of a user that talks to the server or link at addr. It
// has not been started.
func (b *Bench) App(addr string, user impart.UserID) *App {
	a := &App{b: b, Name: string(user) + "'s app", User: user, url: "http://" + addr, store: filepath.Join(b.Data, string(user)+".db")}
	if b.Sabotaged(AppInMemory.Name) {
		a.store = ""
	}
	b.Cleanup(a.Kill)
	return a
}

// Start starts the process.
func (a *App) Start() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.starts, a.lastStart = a.starts+1, len(a.lines)
	log, err := os.Create(filepath.Join(a.b.Dir, fmt.Sprintf("app-%s-%d.log", a.User, a.starts)))
	a.b.Must(err)
	defer log.Close()
	cmd := exec.Command(a.b.Binary, "lab", "client", "--url", a.url, "--user", string(a.User), "--store", a.store)
	cmd.Env, cmd.Stderr = []string{}, log
	if bug := a.b.Sabotage.Bug; bug != "" {
		cmd.Env = append(cmd.Env, "IM_BUG="+string(bug))
	}
	in, err := cmd.StdinPipe()
	a.b.Must(err)
	out, err := cmd.StdoutPipe()
	a.b.Must(err)
	a.b.Must(cmd.Start()) // it ends with its standard input, so not even a killed lab leaves it behind
	a.cmd, a.in, a.done = cmd, in, make(chan struct{})
	go a.read(out, a.done)
	a.b.Note(a.Name, "started", "pid %d", cmd.Process.Pid)
}

func (a *App) read(out io.Reader, done chan<- struct{}) {
	defer close(done)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var l app.Line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			continue // cut off by a kill
		}
		what := l.Saw
		if l.State != "" {
			what = l.State
		}
		a.b.Note(a.Name, what, "%s", clip(lines.Text()))
		a.mu.Lock()
		a.lines = append(a.lines, l)
		a.mu.Unlock()
	}
}

// Kill ends the process as a crash does; without one it does nothing.
func (a *App) Kill() {
	a.mu.Lock()
	cmd, in, done := a.cmd, a.in, a.done
	a.cmd = nil
	a.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill()
	<-done
	_ = cmd.Wait() // "signal: killed" is what was asked for
	_ = in.Close()
	a.b.Note(a.Name, "killed", "SIGKILL")
}

// Store is the path of its local store; "" if that is in memory.
func (a *App) Store() string { return a.store }

// Kills is how often a process of it was killed while it was in use.
func (a *App) Kills() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.starts - 1
}

// Online waits until the application says that it is online since its last start.
func (a *App) Online() {
	a.mu.Lock()
	from := a.lastStart
	a.mu.Unlock()
	if !a.b.Eventually(replyWithin, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return slices.ContainsFunc(a.lines[from:], func(l app.Line) bool { return l.State == "online" })
	}) {
		a.b.Broken("%s does not come online", a.Name)
	}
}

// order writes one line to the process.
func (a *App) order(o app.Order) {
	text, err := json.Marshal(o)
	a.b.Must(err)
	a.mu.Lock()
	in := a.in
	a.mu.Unlock()
	_, err = in.Write(append(text, '\n'))
	a.b.Must(err)
}

// Send gives the application a message to send, and waits until it is durably in
// the outbox.
func (a *App) Send(conv impart.ConvID, cmid impart.CMID, body string) {
	a.order(app.Order{Do: "send", Conv: conv, CMID: cmid, Body: body})
	if !a.b.Eventually(replyWithin, func() bool {
		return len(a.Lines("taken", func(l app.Line) bool { return l.CMID == cmid })) > 0
	}) {
		a.b.Broken("%s did not take %s into its outbox", a.Name, cmid)
	}
}

// Outbox asks how many messages have no final answer.
func (a *App) Outbox() int {
	before := len(a.Lines("outbox", nil))
	a.order(app.Order{Do: "outbox"})
	if !a.b.Eventually(replyWithin, func() bool { return len(a.Lines("outbox", nil)) > before }) {
		a.b.Broken("%s does not tell of its outbox", a.Name)
	}
	all := a.Lines("outbox", nil)
	return all[len(all)-1].N
}

// Lines gives what all processes of the application have told, of one sort and
// matched; a nil match takes all.
func (a *App) Lines(saw string, match func(app.Line) bool) []app.Line {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.lines), func(l app.Line) bool { return l.Saw != saw || match != nil && !match(l) })
}

// All gives everything that all processes of the application have told, in order.
func (a *App) All() []app.Line {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.lines)
}

// Handled gives the events of a conversation that the application was given, as
// often as it was given them.
func (a *App) Handled(conv impart.ConvID) []app.Line {
	return a.Lines("handled", func(l app.Line) bool { return l.Conv == conv })
}

// Reaches waits until the application has handled seq of a conversation.
func (a *App) Reaches(within time.Duration, conv impart.ConvID, seq impart.Seq) bool {
	return a.b.Eventually(within, func() bool {
		return slices.ContainsFunc(a.Handled(conv), func(l app.Line) bool { return l.Seq >= seq })
	})
}
