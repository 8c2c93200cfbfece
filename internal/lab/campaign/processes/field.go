// Package processes runs plans of the campaign on real things: a server process
// with a SQLite store that is killed with kill -9 or dies at a fault point, TCP
// links that stall, lose and cut, and clients on the SDK with stores on the disk.
// An application that crashes leaves its store as kill -9 would; it shares the
// process of the campaign. Single frames cannot be lost here, but for whole
// connections: the simulation does that.
package processes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
	"github.com/impart-im/impart/internal/lab/campaign"
	"github.com/impart-im/impart/internal/lab/campaign/history"
	"github.com/impart-im/impart/internal/lab/process"
)

// Config says what to run.
type Config struct {
	Binary string // a program with fault points
	Bug    string // one that is planted in the server; "": none
	Store  string // that several nodes share: [PostgreSQL] or [MySQL]
	Dir    string // an empty folder
}

// halted is the exit code of a server that a fault point has ended.
const halted = 137

// Field is a world of a campaign on real processes.
type Field struct {
	cfg  Config
	ctx  context.Context
	seed uint64
	nets map[int]*net
	http *http.Client
	tape *history.Tape
	plan *campaign.Plan

	// pick is the process that is asked next, of several; nil: there is one.
	pick func() *process.Process
	// reachable is where a device finds a server; nil: where everybody does.
	reachable func() string

	mu   sync.Mutex // guards what follows
	proc *process.Process

	observers map[impart.UserID]*observer
	calls     int
}

var _ campaign.World = (*Field)(nil)

// New makes a world that has not been started. End it with Close.
func New(ctx context.Context, seed uint64, cfg Config) (*Field, error) {
	f := &Field{
		cfg: cfg, ctx: ctx, seed: seed, nets: map[int]*net{}, observers: map[impart.UserID]*observer{},
		http: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	for _, dir := range []string{f.Dir(), f.serverDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("a run of the campaign: %w", err)
		}
	}
	return f, nil
}

// Watch lets what the observer hears be written down.
func (f *Field) Watch(tape *history.Tape, plan *campaign.Plan) { f.tape, f.plan = tape, plan }

// Dir implements [campaign.World].
func (f *Field) Dir() string { return filepath.Join(f.cfg.Dir, "phones") }

func (f *Field) serverDir() string { return filepath.Join(f.cfg.Dir, "server") }
func (f *Field) store() string     { return filepath.Join(f.serverDir(), "impart.db") }

// Start implements [campaign.World].
func (f *Field) Start(death campaign.Death) error {
	p, err := process.Start(f.ctx, process.Config{Binary: f.cfg.Binary, Env: f.settings("sqlite:"+f.store(), death), Dir: f.serverDir()})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.proc = p
	return nil
}

// settings are those of a server on a store, to die at a point.
func (f *Field) settings(store string, death campaign.Death) []string {
	env := []string{
		"IM_LISTEN=127.0.0.1:0", "IM_STORE=" + store, "IM_LOG_FORMAT=text", "IM_LOG_LEVEL=warn",
		"IM_SWEEP_MS=150", "IM_RETRY_MS=100,150,200,250",
	}
	if f.cfg.Bug != "" {
		env = append(env, "IM_BUG="+f.cfg.Bug)
	}
	if death.Point != "" {
		env = append(env, fmt.Sprintf("IM_FAULT=%s:halt:%d", death.Point, death.After))
	}
	return env
}

func (f *Field) process() *process.Process {
	if f.pick != nil {
		return f.pick()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.proc
}

// addr is where the server listens; each start has another port.
func (f *Field) addr() string { return f.process().Addr() }

// Kill implements [campaign.World].
func (f *Field) Kill() {
	p := f.process()
	p.Kill()
	if code := p.ExitCode(); code != halted && code != 0 && f.tape != nil {
		f.tape.Wrong("D6", "the server ended by itself with exit code %d:\n%s", code, p.LogTail(20))
	}
	f.dropObservers()
}

// Drain implements [campaign.World].
func (f *Field) Drain() error {
	ctx, cancel := context.WithTimeout(f.ctx, 20*time.Second)
	defer cancel()
	code, err := f.process().Terminate(ctx)
	f.dropObservers()
	if err == nil && code != 0 && code != halted {
		err = fmt.Errorf("a drained server ended with exit code %d", code)
	}
	return err
}

// Died implements [campaign.World].
func (f *Field) Died() bool { return !f.process().Running() }

// Keep implements [campaign.World]: a cold backup, between a kill and a start.
func (f *Field) Keep() error {
	f.Kill()
	for _, suffix := range []string{"", "-wal"} {
		if err := copyFile(f.store()+suffix, f.store()+".kept"+suffix); err != nil {
			return err
		}
	}
	return f.Start(campaign.Death{})
}

// Restore implements [campaign.World].
func (f *Field) Restore() error {
	_ = os.Remove(f.store() + "-shm")
	for _, suffix := range []string{"", "-wal"} {
		_ = os.Remove(f.store() + suffix)
		if err := copyFile(f.store()+".kept"+suffix, f.store()+suffix); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file that is there; one that is not is left out.
func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

// Close ends the server and every link, and looks for a wreck in the server's log.
func (f *Field) Close() error {
	f.dropObservers()
	for _, n := range f.nets {
		n.proxy.Close()
	}
	if f.proc == nil {
		return nil
	}
	f.proc.Kill()
	return f.proc.Verdict()
}

// Beat implements [campaign.World].
func (f *Field) Beat() time.Duration { return 25 * time.Millisecond }

// Patience implements [campaign.World].
func (f *Field) Patience() time.Duration { return 40 * time.Second }

// Tune implements [campaign.World].
func (f *Field) Tune(cfg *client.Config) {
	cfg.ReplyTimeout, cfg.AckDelay = time.Second, 20*time.Millisecond
	cfg.MinBackoff, cfg.MaxBackoff, cfg.StableAfter = 20*time.Millisecond, 300*time.Millisecond, time.Second
}

// Run runs one plan in a world of its own.
func Run(ctx context.Context, plan *campaign.Plan, cfg Config, note func(string)) (campaign.Result, error) {
	if plan.Nodes > 0 {
		return runNodes(ctx, plan, cfg, note)
	}
	f, err := New(ctx, plan.Seed, cfg)
	if err != nil {
		return campaign.Result{Seed: plan.Seed}, err
	}
	result, err := campaign.Execute(ctx, plan, f, note)
	if wreck := f.Close(); wreck != nil {
		err = errors.Join(err, wreck)
	}
	return result, err
}
