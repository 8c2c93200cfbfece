package processes

import (
	"strings"

	"github.com/impart-im/impart/internal/lab/campaign"
	"github.com/impart-im/impart/internal/lab/link"
	"github.com/impart-im/impart/internal/lab/process"
)

// hopOf is where a node's logic node listens; "" if it never has.
func (n *Nodes) hopOf(each *node) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if each.rules == nil {
		return ""
	}
	return each.rules.Hop()
}

// startApart starts what does not run of a logic node and its gateway.
func (n *Nodes) startApart(each *node, env []string) error {
	each.hop.Heal()
	env = append(env, "IM_REDIS="+n.memo.URL())
	if each.rules == nil || !each.rules.Running() {
		listen := "IM_LOGIC_LISTEN=127.0.0.1:0"
		p, err := process.Start(n.ctx, process.Config{Binary: n.cfg.Binary, Args: []string{"logic"}, Env: append(env, listen), Dir: each.dir})
		if err != nil {
			return err
		}
		n.mu.Lock()
		each.rules = p
		n.mu.Unlock()
	}
	if each.proc != nil && each.proc.Running() {
		return nil
	}
	var hops []string
	for _, other := range n.all {
		hops = append(hops, other.hop.Addr())
	}
	p, err := process.Start(n.ctx, process.Config{
		Binary: n.cfg.Binary, Args: []string{"gateway"}, Dir: each.dir, Env: append(env, "IM_LOGIC="+strings.Join(hops, ",")),
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	each.proc = p
	return nil
}

// breakApart breaks one role of a node, the way between them, or Redis.
func (n *Nodes) breakApart(s *campaign.Step, each *node) (mend func() error, err error) {
	switch s.Do {
	case campaign.LogicKill, campaign.EdgeKill:
		if each.drained {
			return nil, nil
		}
		each.away = true
		if s.Do == campaign.LogicKill {
			n.end(each.rules)
		} else {
			n.end(each.proc)
		}
		return func() error { return n.revive(each) }, nil
	case campaign.LogicPause:
		return n.pause(each, each.rules)
	case campaign.HopCut:
		way := []link.Direction{link.Up, link.Down, link.Both}[s.Size%3]
		each.hop.Shape(way, func(s *link.Shape) { s.BlackHole = true })
		return func() error { each.hop.Heal(); return nil }, nil
	case campaign.RedisKill:
		n.memo.Kill()
		return func() error { return n.memo.Start(n.ctx) }, nil
	case campaign.RedisPause:
		return n.memo.Resume, n.memo.Pause()
	case campaign.RedisWipe:
		if err := n.memo.Wipe(n.ctx); err != nil {
			return nil, nil // it is down or frozen just now
		}
		return func() error { return nil }, nil
	}
	return nil, nil
}
