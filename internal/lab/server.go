package lab

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab/process"
)

// Server is one node on the bench: a store and, most of the time, a process that
// serves it. Its address stays the same over restarts. Where roles are apart it is a
// gateway, with a logic node of its own behind it: what is done to it is done to both.
type Server struct {
	b     *Bench
	name  string    // on the timeline
	role  string    // "serve", "gateway" or "logic"
	rules []*Server // the logic nodes that a gateway asks
	own   *Server   // the logic node that shares a gateway's fate; nil: none
	dir   string    // where the process works
	place *place    // of the store, which other nodes may share
	env   []string
	// MaxFiles limits the open files of processes that are started from now on; 0: not.
	MaxFiles uint64

	mu     sync.Mutex // guards what follows
	proc   *process.Process
	told   chan struct{} // closed when all that has struck proc is on the timeline
	addr   string
	hop    string // where gateways find a logic node
	starts int
}

// Serve starts a server on a fresh store, with these settings ("IM_SWEEP_MS=500").
func (b *Bench) Serve(env ...string) *Server {
	s := b.NewServer("", env...)
	s.Start()
	return s
}

// NewServer is a server that has not been started, on an empty store. A store of
// SQLite's is in the folder dir, "" for a folder of its own.
func (b *Bench) NewServer(dir string, env ...string) *Server {
	s := b.newServer(dir, env)
	return s.on(b.freshPlace(s.dir))
}

// NewNode is a server that has not been started, on the store of this one, at which
// it looks through the same place.
func (s *Server) NewNode(env ...string) *Server {
	return s.b.newServer("", env).on(s.place)
}

// Node starts another node on the store of this one.
func (s *Server) Node(env ...string) *Server {
	node := s.NewNode(env...)
	node.Start()
	return node
}

// newServer is a server without a store.
func (b *Bench) newServer(dir string, env []string) *Server {
	s := b.newProcess("server", "serve", dir, env)
	name, dir := s.name, s.dir
	if b.Shape == Apart {
		s.role = "gateway"
		s.own = &Server{b: b, name: name + "-logic", role: "logic", dir: dir, env: env}
		s.rules = []*Server{s.own}
		b.Cleanup(s.own.end)
	}
	return s
}

// newProcess is a server of a role, with a name of its own.
func (b *Bench) newProcess(name, role, dir string, env []string) *Server {
	b.mu.Lock()
	if b.named == nil {
		b.named = map[string]int{}
	}
	b.named[name]++
	if n := b.named[name]; n > 1 {
		name += strconv.Itoa(n)
	}
	b.mu.Unlock()
	if dir == "" {
		dir = filepath.Join(b.Data, name)
		b.Must(os.MkdirAll(dir, 0o755))
	}
	s := &Server{b: b, name: name, role: role, dir: dir, env: env}
	b.Cleanup(s.end)
	return s
}

// Logic starts a logic node on a fresh store.
func (b *Bench) Logic(env ...string) *Server {
	s := b.newProcess("logic", "logic", "", env)
	s.place = b.freshPlace(s.dir)
	s.Start()
	return s
}

// Logic starts another logic node on the store of this one.
func (s *Server) Logic(env ...string) *Server {
	other := s.b.newProcess("logic", "logic", "", env)
	other.place = s.place
	other.Start()
	return other
}

// Gateway starts a gateway that asks these logic nodes.
func (b *Bench) Gateway(rules []*Server, env ...string) *Server {
	s := b.newProcess("gateway", "gateway", "", env)
	s.place, s.rules = rules[0].place, rules
	s.Start()
	return s
}

// on puts a server that has not been started on a store.
func (s *Server) on(p *place) *Server {
	s.place = p
	if s.own != nil {
		s.own.place = p
	}
	return s
}

// Start starts a process on the store, with further settings for this one alone.
func (s *Server) Start(env ...string) {
	s.b.Must(s.TryStart(env...))
}

// TryStart is Start for a server that may refuse to.
func (s *Server) TryStart(env ...string) error {
	if s.own != nil {
		if !s.own.runs() {
			if err := s.own.TryStart(env...); err != nil {
				return err
			}
		}
		if s.runs() { // its logic node alone had ended
			return nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
	log := filepath.Join(s.b.Dir, fmt.Sprintf("%s-%d.log", s.name, s.starts))
	all := slices.Concat(s.settings(), s.env, env, s.b.Sabotage.Env)
	if bug := s.b.Sabotage.Bug; bug != "" {
		all = append(all, "IM_BUG="+string(bug))
	}
	began := time.Now()
	p, err := process.Start(s.b.ctx, process.Config{Binary: s.b.Binary, Args: []string{s.role}, Env: all, Dir: s.dir, Log: log, MaxFiles: s.MaxFiles})
	if err != nil {
		s.b.Note(s.name, "failed", "%s", clip(err.Error()))
		return err
	}
	s.proc, s.addr, s.hop, s.told = p, p.Addr(), p.Hop(), make(chan struct{})
	s.b.Note(s.name, "started", "%s", strings.Join(slices.Concat(
		[]string{fmt.Sprintf("pid %d on %s after %d ms", p.PID(), p.Addr(), time.Since(began).Milliseconds())}, tellable(s.env), tellable(env)), " "))
	go s.tellStrikes(log, p, s.told)
	return nil
}

// settings are those that the role needs, under mu.
func (s *Server) settings() []string {
	anywhere := "127.0.0.1:0"
	all := []string{"IM_LOG_FORMAT=text", "IM_LISTEN=" + cmp.Or(s.addr, anywhere)}
	switch s.role {
	case "gateway":
		var hops []string
		for _, r := range s.rules {
			hops = append(hops, r.Hop())
		}
		return append(all, "IM_LOGIC="+strings.Join(hops, ","), "IM_REDIS="+s.b.redisURL(), "IM_GATEWAY_ID="+s.name)
	case "logic":
		return append(all, "IM_LOGIC_LISTEN="+cmp.Or(s.hop, anywhere), "IM_STORE="+s.place.dsn(), "IM_REDIS="+s.b.redisURL())
	}
	return append(all, "IM_STORE="+s.place.dsn())
}

// runs reports whether its process does.
func (s *Server) runs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc != nil && s.proc.Running()
}

// tellable are the settings without those that hold a password.
func tellable(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(line string) bool { return strings.HasPrefix(line, listenStore) })
}

// ended waits until the process is over and what has struck it is told.
func (s *Server) ended(p *process.Process) {
	s.mu.Lock()
	told := s.told
	s.mu.Unlock()
	<-p.Done()
	<-told
}

// Restart kills the process as a crash does and starts another one.
func (s *Server) Restart(env ...string) {
	s.Kill()
	s.Start(env...)
}

// Kill ends the process as a crash does.
func (s *Server) Kill() {
	if s.own != nil { // first: what it has not committed is lost with it
		s.own.KillEdge()
	}
	s.KillEdge()
}

// KillEdge is Kill for the process that has the connections: a gateway's logic node
// goes on.
func (s *Server) KillEdge() {
	p := s.Process()
	if p.Running() {
		p.Kill()
		s.ended(p)
		s.b.Note(s.name, "killed", "SIGKILL, exit code %d", p.ExitCode())
	}
}

// Drain ends the process as an upgrade does (SIGTERM): it says goodbye first.
func (s *Server) Drain() {
	p := s.Process()
	ctx, cancel := s.b.within(20 * time.Second)
	defer cancel()
	code, err := p.Terminate(ctx)
	s.b.Must(err)
	s.ended(p)
	s.b.Note(s.name, "drained", "SIGTERM, exit code %d", code)
	s.b.Wants(code == 0, "a drained server ended with exit code %d", code)
	if s.own != nil {
		s.own.Drain()
	}
}

// Process is the process that was started last.
func (s *Server) Process() *process.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		s.b.Broken("%s was never started", s.name)
	}
	return s.proc
}

// Exit waits until the process, or the one of its logic node, has ended by itself and
// gives its exit code; -1 if it still runs after that time.
func (s *Server) Exit(within time.Duration) int {
	ends := s
	var behind <-chan struct{}
	if s.own != nil {
		behind = s.own.Process().Done()
	}
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-s.Process().Done():
	case <-behind:
		ends = s.own
	case <-late.C:
		return s.Process().ExitCode()
	case <-s.b.ctx.Done():
		s.b.Must(s.b.ctx.Err())
	}
	p := ends.Process()
	ends.ended(p)
	s.b.Note(ends.name, "ended", "exit code %d", p.ExitCode())
	return p.ExitCode()
}

// Pause stops the process (SIGSTOP); Resume lets it go on.
func (s *Server) Pause() {
	s.b.Must(s.Process().Pause())
	s.b.Note(s.name, "paused", "SIGSTOP")
	if s.own != nil {
		s.own.Pause()
	}
}

// Resume lets a paused process go on.
func (s *Server) Resume() {
	s.b.Must(s.Process().Resume())
	s.b.Note(s.name, "resumed", "SIGCONT")
	if s.own != nil {
		s.own.Resume()
	}
}

// end stops the server at the end of a run, and looks for a wreck in its log.
func (s *Server) end() {
	s.mu.Lock()
	p := s.proc
	s.mu.Unlock()
	if p == nil {
		return
	}
	p.Kill()
	s.ended(p)
	logs, _ := filepath.Glob(filepath.Join(s.b.Dir, s.name+"-*.log"))
	for _, name := range logs {
		text, _ := os.ReadFile(name)
		for _, wreck := range []string{"panic:", "fatal error:", "DATA RACE"} {
			if bytes.Contains(text, []byte(wreck)) {
				s.b.Violated("%s has %q in its log %s", s.name, wreck, filepath.Base(name))
			}
		}
	}
}

// Addr is where it listens, as "127.0.0.1:8080".
func (s *Server) Addr() string { s.mu.Lock(); defer s.mu.Unlock(); return s.addr }

// Hop is where gateways find a logic node.
func (s *Server) Hop() string { s.mu.Lock(); defer s.mu.Unlock(); return s.hop }

// URL is the base of its HTTP endpoints.
func (s *Server) URL() string { return "http://" + s.Addr() }

// Logged is how often a text stands in the logs of the server's processes.
func (s *Server) Logged(text string) (times int) {
	logs, err := filepath.Glob(filepath.Join(s.b.Dir, s.name+"-*.log"))
	s.b.Must(err)
	for _, name := range logs {
		log, err := os.ReadFile(name)
		s.b.Must(err)
		times += strings.Count(string(log), text)
	}
	return times
}

// Struck is how often a fault struck at a point, in all processes of the server.
func (s *Server) Struck(p fault.Point) (times int) { return s.Logged(fault.Struck(p)) }

// Metric is the sum of a metric over its labels, of those samples whose line has
// all of the given texts (`why="sweep"`).
func (s *Server) Metric(name string, having ...string) (sum float64) {
	if s.own != nil {
		sum = s.own.Metric(name, having...)
	}
	text, err := s.call(http.MethodGet, "/metrics", nil)
	s.b.Must(err)
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || !strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, "{") {
			continue
		}
		if slices.ContainsFunc(having, func(h string) bool { return !strings.Contains(rest, h) }) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64)
		s.b.Must(err)
		sum += value
	}
	return sum
}

// Ready reports whether it says that it can serve.
func (s *Server) Ready() bool {
	_, err := s.call(http.MethodGet, "/readyz", nil)
	return err == nil
}

// Pending is how many flows owe an acknowledgement: as the server counts them, or as
// anybody can in Redis.
func (s *Server) Pending() int {
	if s.role != "gateway" {
		return int(s.Metric("im_pending_flows"))
	}
	text, err := s.b.Redis().Do(s.b.ctx, "ZCARD", "ack:pending:"+s.name)
	s.b.Must(err)
	n, err := strconv.Atoi(strings.TrimSpace(text))
	s.b.Must(err)
	return n
}

// PutConv makes a group of these users, who see it from its first event on.
func (s *Server) PutConv(conv impart.ConvID, users ...impart.UserID) {
	_, err := s.call(http.MethodPut, "/admin/v1/conversations/"+url.PathEscape(string(conv)), map[string]any{"kind": "group", "members": users})
	s.b.Must(err)
}

// Join makes a user a member; Leave ends that.
func (s *Server) Join(conv impart.ConvID, user impart.UserID) {
	s.membership(http.MethodPut, conv, user)
}

// Leave ends a membership.
func (s *Server) Leave(conv impart.ConvID, user impart.UserID) {
	s.membership(http.MethodDelete, conv, user)
}

func (s *Server) membership(method string, conv impart.ConvID, user impart.UserID) {
	_, err := s.call(method, "/admin/v1/conversations/"+url.PathEscape(string(conv))+"/members/"+url.PathEscape(string(user)), nil)
	s.b.Must(err)
	s.b.Note("admin", strings.ToLower(method), "%s in %s", user, conv)
}

// Post carries out a request of a user over HTTP and reads the answer into out.
func (s *Server) Post(user impart.UserID, path string, body, out any) error {
	asked, err := json.Marshal(body, json.Deterministic(true))
	if err != nil {
		return err
	}
	s.b.Note(string(user), "post", "%s %s", path, clip(string(asked)))
	text, err := s.call(http.MethodPost, path, body, "Authorization", "Bearer dev:"+string(user))
	if err != nil {
		s.b.Note(string(user), "refused", "%s", clip(err.Error()))
		return err
	}
	s.b.Note(string(user), "answered", "%s", clip(string(text)))
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// call is one request over HTTP; an answer that is no success is an error.
func (s *Server) call(method, path string, body any, headers ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(s.b.ctx, 20*time.Second)
	defer cancel()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
		headers = append(headers, "Content-Type", "application/json")
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL()+path, content)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(text))
	}
	return text, err
}

// Heap is how much lives in the memory of the process, in bytes: the least that
// is seen within a while, because garbage comes and goes.
func (s *Server) Heap() int64 {
	least := s.Metric("go_memstats_heap_alloc_bytes")
	for range 30 {
		s.b.Pause(50 * time.Millisecond)
		least = min(least, s.Metric("go_memstats_heap_alloc_bytes"))
	}
	return int64(least)
}
