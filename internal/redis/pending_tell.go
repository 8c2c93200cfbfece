package redis

import (
	"context"
	"strconv"
	"time"

	"github.com/impart-im/impart/internal/pending"
)

// tell tells Redis what was noted, until ctx ends.
func (p *Pending) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.more:
		}
		for {
			_, err := ask[none](ctx, p, nil)
			if err == nil {
				break
			}
			if !wait(ctx, p.pause()) {
				return
			}
		}
	}
}

// pause is how long Redis is left in peace.
func (p *Pending) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(time.Until(p.retryAt), 10*time.Millisecond)
}

// maxFlushes bounds what is told before somebody who asks gets an answer.
const maxFlushes = 16

// flush tells Redis what waits, and says whether there was anything. What it could not
// tell waits on. p.talk is held.
func (p *Pending) flush() (told bool, err error) {
	for range maxFlushes {
		changes := p.next()
		if len(changes) == 0 {
			return told, nil
		}
		told = true
		if _, err := leased(p, func(ctx context.Context) (none, error) { return none{}, p.send(ctx, changes) }); err != nil {
			p.putBack(changes)
			return told, err
		}
	}
	signal(p.more)
	return told, nil
}

// next takes some of the changes that wait.
func (p *Pending) next() []change {
	p.mu.Lock()
	defer p.mu.Unlock()
	changes := make([]change, 0, min(len(p.waiting), maxChanges))
	for key, c := range p.waiting {
		if len(changes) == maxChanges {
			break
		}
		changes = append(changes, c)
		delete(p.waiting, key)
	}
	return changes
}

// putBack lets changes wait again, before what was noted since. Whether Redis has
// made them is not known: each may be made twice.
func (p *Pending) putBack(changes []change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range changes {
		if since, ok := p.waiting[c.Key]; ok {
			c = c.then(since)
		} else if len(p.waiting) >= maxWaiting {
			p.c.metrics.dropped.WithLabelValues(partPending).Inc()
			continue
		}
		p.waiting[c.Key] = c
	}
	signal(p.more)
}

func (p *Pending) send(ctx context.Context, changes []change) error {
	args := make([]string, 0, 2+width*len(changes))
	args = append(args, p.token, p.time())
	for i := range changes {
		c := &changes[i]
		args = append(args, string(c.way), memberOf(c.Key), strconv.FormatInt(int64(c.Seq), 10), ladderText(c.Ladder))
	}
	return changeScript.Exec(ctx, p.c.get(), p.keys, args).Error()
}

// Inherit implements [pending.Heir].
func (p *Pending) Inherit(ctx context.Context, limit int) (taken []pending.Entry, err error) {
	for len(taken) < limit {
		gateway := p.firstSilent()
		if gateway == "" {
			break
		}
		some, askErr := ask(ctx, p, func(ctx context.Context) (legacy, error) { return p.inherit(ctx, gateway, limit-len(taken)) })
		if err = askErr; err != nil {
			break
		}
		taken = append(taken, some.flows...)
		if some.over {
			p.buried(gateway)
		}
	}
	p.c.metrics.inherited.Add(float64(len(taken)))
	return taken, err
}
