package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/api"
	"github.com/impart-im/impart/internal/auth"
	"github.com/impart-im/impart/internal/bench"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/sqlstore"
)

// targets are the servers of one bench: one that was running before, or as many
// of our own as it takes.
type targets struct {
	bench   *bench.Env
	environ []string
	running *bench.Target // with --url
	folder  string        // of our own servers, removed at the end
	made    int
	stores  benchStores

	mu        sync.Mutex // guards what follows
	own       []*bench.Process
	abandoned bool // no more may be started
}

// naiveName is the hidden command that serves without group commit.
const naiveName = "naive-server"

func naiveCommand(env streams) *cobra.Command {
	cmd := serveCommand(env)
	cmd.Use, cmd.Hidden = naiveName, true
	cmd.Short = "The server with one transaction per message, to compare with"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runServe(cmd, env, roleServe, true) }
	return cmd
}

// prepare finds the running server, or makes room for our own.
func (f *benchFlags) prepare(ctx context.Context, cmd *cobra.Command, t *targets) error {
	e := t.bench
	if url, _ := cmd.Flags().GetString("url"); url != "" {
		var err error
		t.running, err = f.runningTarget(cmd, e)
		e.Report.Server = "the server at " + oneLine(url)
		return err
	}
	for _, pair := range f.env.environ() {
		// Settings are those of somebody else's server; planted bugs are for ours.
		if !strings.HasPrefix(pair, "IM_") || fault.Enabled && strings.HasPrefix(pair, "IM_BUG=") {
			t.environ = append(t.environ, pair)
		}
	}
	if err := t.makeFolder(f.dir); err != nil {
		return err
	}
	if err := t.stores.prepare(ctx, f.store, t.folder); err != nil {
		return err
	}
	e.OpenStore = t.openStore
	if t.stores.server != nil {
		e.StartApart = t.startApart
	}
	e.Again = func(ctx context.Context, ended *bench.Process) (*bench.Target, error) {
		return t.startIn(ctx, ended.Folder, false)
	}
	var err error
	if e.Capacity, _, err = connectionLimits(0); err != nil {
		return err
	}
	e.Report.Server = "a server of its own, with its defaults and " + t.stores.String()
	if d, err := diskOf(t.folder); err == nil {
		e.Report.Machine.Disk = d.kind
		if d.kind == "tmpfs" || d.kind == "ramfs" {
			e.Report.Notes = append(e.Report.Notes, "the store was in memory, where a flush costs nothing: choose a disk with --dir")
		}
	}
	e.Report.Machine.Fsync, err = bench.Flush(ctx, t.folder)
	return err
}

// makeFolder makes the folder of our own servers.
func (t *targets) makeFolder(dir string) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		return errInterrupted
	}
	if t.folder, err = os.MkdirTemp(dir, "impart-bench-"); err != nil {
		return usagef("--dir: no folder can be made there: %w", err)
	}
	return nil
}

// errInterrupted is what a start after the second signal gets.
var errInterrupted = errors.New("interrupted twice")

// start gives the running server, or starts another of our own.
func (t *targets) start(ctx context.Context, naive bool) (*bench.Target, error) {
	if t.running != nil {
		return t.running, nil
	}
	folder, err := t.next("server")
	if err != nil {
		return nil, err
	}
	return t.startIn(ctx, folder, naive)
}

// startIn starts a server of our own on the store in folder.
func (t *targets) startIn(ctx context.Context, folder string, naive bool) (*bench.Target, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	store, err := t.stores.address(ctx, folder)
	if err != nil {
		return nil, err
	}
	args := []string{"serve"}
	if naive {
		args = []string{"bench", naiveName}
	}
	args = append(args, "--listen", "127.0.0.1:0", "--rate-send", "0", "--log-level", "warn")
	// By the environment: it may hold a password, which a list of processes would show.
	p, err := bench.StartProcess(ctx, exe, args, append(slices.Clone(t.environ), "IM_STORE="+store), folder)
	if err != nil {
		return nil, err
	}
	if err := t.owns(p); err != nil {
		return nil, err
	}
	made := t.targetOf(p)
	made.Process, made.Database, made.Storage = p, t.stores.cpu(), t.stores.storage(folder, p)
	return made, nil
}

// startApart starts a logic node of our own, and a gateway in front of it.
func (t *targets) startApart(ctx context.Context) (*bench.Target, error) {
	folder, err := t.next("roles")
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	store, err := t.stores.address(ctx, folder)
	if err != nil {
		return nil, err
	}
	launch := func(args []string, variable string) (*bench.Process, error) {
		args = append(args, "--listen", "127.0.0.1:0", "--log-level", "warn")
		p, err := bench.StartProcess(ctx, exe, args, append(slices.Clone(t.environ), variable+"="+store), folder)
		if err != nil {
			return nil, err
		}
		return p, t.owns(p)
	}
	node, err := launch([]string{"logic", "--logic-listen", "127.0.0.1:0", "--rate-send", "0"}, "IM_STORE")
	if err != nil {
		return nil, err
	}
	edge, err := launch([]string{"gateway", "--logic", node.Hop}, "IM_LISTEN_STORE")
	if err != nil {
		return nil, err
	}
	made := t.targetOf(edge)
	gateway, logic := made.Metrics, t.targetOf(node).Metrics
	made.Metrics = func(ctx context.Context) ([]byte, error) {
		here, err := gateway(ctx)
		if err != nil {
			return nil, err
		}
		there, err := logic(ctx)
		return append(append(here, '\n'), there...), err
	}
	made.Process, made.Database, made.Storage = edge, t.stores.cpu(), t.stores.storage(folder, node)
	made.Logic, made.LogicMetrics = node, logic
	return made, nil
}

// targetOf reaches a process of our own, whose users sign in as they like.
func (t *targets) targetOf(p *bench.Process) *bench.Target {
	client := &adminClient{url: p.URL, http: http.Client{Timeout: clientTime}}
	return target(client, func(i int) (impart.UserID, string, error) {
		user := benchUser(t.bench, i)
		return user, auth.DevPrefix + string(user), nil
	})
}

// owns notes a server that has to be ended.
func (t *targets) owns(p *bench.Process) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.own = append(t.own, p)
	if t.abandoned {
		p.Abandon()
		return errInterrupted
	}
	return nil
}

// next makes a new folder for a store.
func (t *targets) next(what string) (string, error) {
	t.made++
	folder := filepath.Join(t.folder, fmt.Sprintf("%s-%d", what, t.made))
	return folder, os.Mkdir(folder, 0o700)
}

func (t *targets) openStore(ctx context.Context) (store.Store, error) {
	folder, err := t.next("store")
	if err != nil {
		return nil, err
	}
	address, err := t.stores.address(ctx, folder)
	if err != nil {
		return nil, err
	}
	return sqlstore.Open(ctx, address, sqlstore.Options{})
}

// close ends our servers and removes what they kept.
func (t *targets) close() error {
	t.mu.Lock()
	own := t.own
	t.mu.Unlock()
	var errs []error
	for _, p := range own {
		errs = append(errs, p.Stop())
	}
	errs = append(errs, t.stores.close())
	if t.folder != "" {
		errs = append(errs, os.RemoveAll(t.folder))
	}
	return errors.Join(errs...)
}

// target reaches a server through its admin API.
func target(client *adminClient, user func(i int) (impart.UserID, string, error)) *bench.Target {
	return &bench.Target{
		URL: client.url, User: user,
		PutConversation: func(ctx context.Context, conv impart.ConvID, members []impart.UserID) error {
			spec := api.ConversationSpec{Kind: impart.Group}
			for _, member := range members {
				spec.Members = append(spec.Members, api.MemberSpec{User: member})
			}
			_, err := client.ask(ctx, http.MethodPut, adminPath("conversations", string(conv)), spec, nil)
			return err
		},
		Metrics: func(ctx context.Context) ([]byte, error) {
			return client.ask(ctx, http.MethodGet, "/metrics", nil, nil)
		},
	}
}

func benchUser(e *bench.Env, i int) impart.UserID {
	return impart.UserID(fmt.Sprintf("bench-%s-u-%05d", e.Run(), i))
}

// runningTarget is the server that --url names.
func (f *benchFlags) runningTarget(cmd *cobra.Command, e *bench.Env) (*bench.Target, error) {
	client, err := newClient(cmd, f.env)
	if err != nil {
		return nil, err
	}
	if f.tokens != "" {
		user, err := readTokens(f.tokens)
		if err != nil {
			return nil, err
		}
		return target(client, user), nil
	}
	l, err := loadRaw(cmd, f.env)
	if err != nil {
		return nil, err
	}
	config, err := l.config.Auth.verifierConfig(nil)
	if err != nil {
		return nil, err
	}
	if err := config.Validate(); err != nil {
		return nil, usageError{err}
	}
	verifier, err := auth.New(cmd.Context(), config)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(cmd.Context(), verifier.Close)
	return target(client, func(i int) (impart.UserID, string, error) {
		user := benchUser(e, i)
		token, err := verifier.Mint(user, day)
		if err != nil {
			return "", "", fmt.Errorf("%w; give users and their tokens with --tokens", err)
		}
		return user, token, nil
	}), nil
}

// readTokens reads a file of users and their tokens.
func readTokens(name string) (func(i int) (impart.UserID, string, error), error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, usagef("--tokens: %w", err)
	}
	defer file.Close()
	var users, tokens []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		if len(words) != 2 {
			return nil, usagef("--tokens: line %d of %s should be a user and a token", n, name)
		}
		users, tokens = append(users, words[0]), append(tokens, words[1])
	}
	if err := lines.Err(); err != nil {
		return nil, usagef("--tokens: %w", err)
	}
	return func(i int) (impart.UserID, string, error) {
		if i >= len(users) {
			return "", "", usagef("--tokens: %s has %d users, and this load needs more", name, len(users))
		}
		return impart.UserID(users[i]), tokens[i], nil
	}, nil
}
