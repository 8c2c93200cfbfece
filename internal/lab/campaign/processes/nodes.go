package processes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/impart-im/impart/internal/lab/campaign"
	"github.com/impart-im/impart/internal/lab/link"
	"github.com/impart-im/impart/internal/lab/process"
	"github.com/impart-im/impart/internal/lab/redis"
)

// Nodes is a world of several servers on one database of its own, each behind a link
// to it. Devices reach whichever node is next. Where roles are apart a
// server is a gateway and a logic node: each gateway asks all logic nodes, over a link
// to each.
type Nodes struct {
	*Field
	plan *campaign.Plan
	all  []*node
	memo *redis.Server // where roles are apart

	ops sync.Mutex // one thing is done to nodes and database at a time

	mu      sync.Mutex // guards what follows
	primary database
	standby database // nil: none, or it is the primary now
	next    int      // node that is asked next
}

var _ campaign.Cluster = (*Nodes)(nil)

// node is one server.
type node struct {
	dir   string
	link  *link.Proxy      // to the database
	proc  *process.Process // the server, or the gateway
	rules *process.Process // the logic node, where roles are apart
	hop   *link.Proxy      // to the logic node
	ill   bool             // frozen, or cut from the database
	away  bool             // ended on purpose, until it is started again
	// drained: how it ended is known. Cut from its database it does not end in order.
	drained bool
}

const (
	served = "impart"
	kept   = "kept" // what a backup holds
)

// NewNodes makes a world that has not been started. End it with Close.
func NewNodes(ctx context.Context, plan *campaign.Plan, cfg Config) (_ *Nodes, err error) {
	f, err := New(ctx, plan.Seed, cfg)
	if err != nil {
		return nil, err
	}
	n := &Nodes{Field: f, plan: plan}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if err = n.startDatabases(ctx); err != nil {
		return nil, err
	}
	if plan.Apart {
		if n.memo, err = redis.Start(ctx, redis.Options{}); err != nil {
			return nil, err
		}
	}
	for i := range plan.Nodes {
		each := &node{dir: filepath.Join(cfg.Dir, fmt.Sprint("node-", i))}
		n.all = append(n.all, each)
		if each.link, err = link.New(plan.Seed+uint64(i), func() string { return n.db().Addr() }); err != nil {
			return nil, err
		}
		if each.hop, err = link.New(plan.Seed+uint64(i), func() string { return n.hopOf(each) }); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(each.dir, 0o755); err != nil {
			return nil, err
		}
	}
	f.pick, f.reachable = n.reach, n.anyAddr
	return n, nil
}

// processes are those of a node that have been started.
func (each *node) processes() []*process.Process {
	var all []*process.Process
	for _, p := range []*process.Process{each.proc, each.rules} {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// runs reports whether all of a node's processes do.
func (n *Nodes) runs(each *node) bool {
	return each.proc != nil && each.proc.Running() && (!n.plan.Apart || each.rules.Running())
}

// reach is the next node that is well, or any: who asks for something knows better
// than to ask another one. Devices do not.
func (n *Nodes) reach() *process.Process { return n.pickOf(false) }

// anyAddr is where the next node is that runs, for a device.
func (n *Nodes) anyAddr() string { return n.pickOf(true).Addr() }

func (n *Nodes) pickOf(ill bool) *process.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	for range n.all {
		n.next++
		each := n.all[n.next%len(n.all)]
		if each.proc != nil && each.proc.Running() && (ill || !each.ill) {
			return each.proc
		}
	}
	return n.all[0].proc
}

// sets notes whether a node is well.
func (n *Nodes) sets(each *node, ill bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	each.ill = ill
}

// Start implements [campaign.World]: the database too, where it is down. The first
// node is the one that dies at the point.
func (n *Nodes) Start(death campaign.Death) error {
	n.ops.Lock()
	defer n.ops.Unlock()
	if err := n.wake(); err != nil {
		return err
	}
	for i, each := range n.all {
		if n.runs(each) {
			continue
		}
		at := death
		if i > 0 {
			at = campaign.Death{}
		}
		if err := n.start(each, at); err != nil {
			return err
		}
	}
	return nil
}

func (n *Nodes) start(each *node, death campaign.Death) error {
	each.link.Heal()
	env := n.settings(n.db().DSNAt(each.link.Addr(), served), death)
	if n.plan.Standby {
		env = append(env, "IM_REPLICATION=sync")
	}
	if n.plan.Apart {
		if err := n.startApart(each, env); err != nil {
			return err
		}
	} else {
		p, err := process.Start(n.ctx, process.Config{Binary: n.cfg.Binary, Env: env, Dir: each.dir})
		if err != nil {
			return err
		}
		n.mu.Lock()
		each.proc = p
		n.mu.Unlock()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	each.away, each.drained, each.ill = false, false, false
	return nil
}

// Kill implements [campaign.World]: all nodes at once.
func (n *Nodes) Kill() {
	n.ops.Lock()
	defer n.ops.Unlock()
	for _, each := range n.all {
		n.kill(each)
	}
	n.dropObservers()
}

// kill ends one node. One that has ended by itself is a finding.
func (n *Nodes) kill(each *node) {
	if each.drained {
		return
	}
	for _, p := range each.processes() {
		n.end(p)
	}
}

func (n *Nodes) end(p *process.Process) {
	p.Kill()
	if code := p.ExitCode(); code != halted && code != 0 && n.tape != nil {
		n.tape.Wrong("D6", "a node ended by itself with exit code %d:\n%s", code, p.LogTail(20))
	}
}

// Drain implements [campaign.World].
func (n *Nodes) Drain() error {
	n.ops.Lock()
	defer n.ops.Unlock()
	var errs []error
	for _, each := range n.all {
		errs = append(errs, n.drain(each))
	}
	n.dropObservers()
	return errors.Join(errs...)
}

func (n *Nodes) drain(each *node) error {
	ctx, cancel := context.WithTimeout(n.ctx, 20*time.Second)
	defer cancel()
	each.drained = true
	for _, p := range each.processes() { // the gateway first
		code, err := p.Terminate(ctx)
		if err == nil && code > 1 && code != halted {
			err = fmt.Errorf("a drained node ended with exit code %d", code)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Died implements [campaign.World].
func (n *Nodes) Died() bool {
	n.ops.Lock()
	defer n.ops.Unlock()
	for _, each := range n.all {
		if !each.away && !n.runs(each) {
			return true
		}
	}
	return false
}

// Keep implements [campaign.World].
func (n *Nodes) Keep() error {
	n.Kill()
	if err := errors.Join(n.wake(), n.db().Clone(n.ctx, served, kept)); err != nil {
		return err
	}
	return n.Start(campaign.Death{})
}

// Restore implements [campaign.World].
func (n *Nodes) Restore() error {
	return errors.Join(n.wake(), n.db().Clone(n.ctx, kept, served))
}

// Break implements [campaign.Cluster].
func (n *Nodes) Break(s *campaign.Step) (mend func() error, err error) {
	n.dropObservers() // they come back where it is well
	n.ops.Lock()
	defer n.ops.Unlock()
	one, err := n.breakOne(s)
	if one == nil {
		return nil, err
	}
	return func() error {
		n.ops.Lock()
		defer n.ops.Unlock()
		return one()
	}, err
}

func (n *Nodes) breakOne(s *campaign.Step) (mend func() error, err error) {
	each := n.all[s.Phone%len(n.all)]
	switch s.Do {
	case campaign.NodeKill:
		n.kill(each)
		each.away = true
		return func() error { return n.revive(each) }, nil
	case campaign.NodeDrain:
		each.away = true
		return func() error { return n.revive(each) }, n.drain(each)
	case campaign.NodePause:
		return n.pause(each, each.processes()...)
	case campaign.NodeCut:
		way := []link.Direction{link.Up, link.Down, link.Both}[s.Size%3]
		each.link.Shape(way, func(s *link.Shape) { s.BlackHole = true })
		n.sets(each, true)
		return func() error { n.sets(each, false); each.link.Heal(); return nil }, nil
	}
	if n.plan.Apart {
		if mend, err := n.breakApart(s, each); mend != nil || err != nil {
			return mend, err
		}
	}
	return n.breakDatabase(s)
}

// pause freezes processes of a node.
func (n *Nodes) pause(each *node, all ...*process.Process) (mend func() error, err error) {
	n.sets(each, true)
	for _, p := range all {
		if failed := p.Pause(); !errors.Is(failed, os.ErrProcessDone) {
			err = errors.Join(err, failed)
		}
	}
	return func() (err error) {
		n.sets(each, false)
		for _, p := range all {
			if failed := p.Resume(); !errors.Is(failed, os.ErrProcessDone) {
				err = errors.Join(err, failed)
			}
		}
		return err
	}, err
}

// revive starts a node that is away.
func (n *Nodes) revive(each *node) error {
	if n.runs(each) {
		return nil
	}
	if err := n.wake(); err != nil {
		return err
	}
	return n.start(each, campaign.Death{})
}

// Patience implements [campaign.World]: a frozen node may hold rows for 10 s, and a
// judgement waits as long for a verdict.
func (n *Nodes) Patience() time.Duration { return time.Minute }

// Close ends everything, and looks for a wreck in the logs of the nodes.
func (n *Nodes) Close() error {
	n.dropObservers()
	for _, each := range n.nets {
		each.proxy.Close()
	}
	n.ops.Lock()
	defer n.ops.Unlock()
	var errs []error
	for _, each := range n.all {
		for _, p := range each.processes() {
			p.Kill()
			errs = append(errs, p.Verdict())
		}
		for _, l := range []*link.Proxy{each.link, each.hop} {
			if l != nil {
				l.Close()
			}
		}
	}
	if n.memo != nil {
		errs = append(errs, n.memo.Close())
	}
	for _, db := range []database{n.standby, n.primary} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// runNodes runs one plan of several nodes.
func runNodes(ctx context.Context, plan *campaign.Plan, cfg Config, note func(string)) (campaign.Result, error) {
	n, err := NewNodes(ctx, plan, cfg)
	if err != nil {
		return campaign.Result{Seed: plan.Seed}, err
	}
	result, err := campaign.Execute(ctx, plan, n, note)
	return result, errors.Join(err, n.Close())
}
