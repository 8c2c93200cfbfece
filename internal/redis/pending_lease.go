package redis

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/pending"
)

// maxSilent bounds the gateways that are looked at in one round.
const maxSilent = 16

// Why a gateway may be without its set: another process of its name has it, or another
// gateway took this one for dead, and empties it.
var (
	errTaken   = errors.New("another process has the set of this gateway's name: is IM_GATEWAY_ID given twice?")
	errEmptied = errors.New("another gateway is about to empty the set of this one, which was silent for too long")
)

// take gets the lease for a process that starts, whoever has it: the same name means
// that the other one has died, or should not have it.
func (p *Pending) take(ctx context.Context) {
	// A failure is noted, and the heartbeat tries again.
	_, _ = ask(ctx, p, func(ctx context.Context) ([]string, error) { return p.announce(ctx, true) })
}

// lease keeps the lease or gets it again.
func (p *Pending) lease(ctx context.Context, force bool) error {
	by := "0"
	if force {
		by = "1"
	}
	what, err := leaseScript.Exec(ctx, p.c.get(), p.keys, []string{p.token, millis(p.cfg.Lease), by}).ToString()
	if err != nil {
		return err
	}
	if what == "emptied" {
		return errEmptied
	}
	p.meets(what == "taken" || what == "shared")
	switch what {
	case "taken":
		return errTaken
	case "got":
		p.c.metrics.leases.WithLabelValues("got").Inc()
		p.cfg.Log.Info("the pending set in redis is new", "set", p.keys[0])
	}
	return nil
}

// meets notes whether another process lives under this gateway's name, and logs when
// that changes.
func (p *Pending) meets(namesake bool) {
	p.mu.Lock()
	changed := p.namesake != namesake
	p.namesake = namesake
	p.mu.Unlock()
	switch {
	case changed && namesake:
		p.cfg.Log.Warn("another process has this gateway's name, and only one of them has a pending set; give each its own IM_GATEWAY_ID", "set", p.keys[0])
	case changed:
		p.cfg.Log.Info("no other process has this gateway's name any more", "set", p.keys[0])
	}
}

// Namesake reports whether another process lived under this gateway's name when Redis
// was last asked. Of the two the one that started later has the set.
func (p *Pending) Namesake() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.namesake
}

// Trouble is why the set was not to be had when it was last asked for, though Redis
// may answer: a replica takes no writes, full memory none either. nil: it is.
func (p *Pending) Trouble() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trouble
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// beat keeps the lease and tells that this gateway lives, until ctx ends.
func (p *Pending) beat(ctx context.Context) {
	for wait(ctx, p.cfg.Lease/5) {
		silent, err := ask(ctx, p, func(ctx context.Context) ([]string, error) { return p.announce(ctx, false) })
		if err == nil {
			p.mu.Lock()
			p.silent = slices.DeleteFunc(silent, func(g string) bool { return g == p.cfg.Gateway })
			p.mu.Unlock()
		}
	}
}

// announce says that this gateway lives, and keeps the lease or gets it. It gives those
// that have not said so for a while. The lease, without which no flow gets into the
// set, comes second: a set with flows belongs to a gateway whose silence is noticed,
// however early it dies.
func (p *Pending) announce(ctx context.Context, force bool) ([]string, error) {
	silent, err := beatScript.Exec(ctx, p.c.get(), []string{gatewaysKey}, []string{p.cfg.Gateway, millis(p.cfg.Lease), strconv.Itoa(maxSilent)}).AsStrSlice()
	if err != nil {
		return nil, err
	}
	return silent, p.lease(ctx, force)
}

// firstSilent is a gateway that may have died, "" if there is none.
func (p *Pending) firstSilent() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.silent) == 0 || fault.Planted(fault.SetsOrphaned) {
		return ""
	}
	return p.silent[0]
}

// buried takes a gateway from those that may have died.
func (p *Pending) buried(gateway string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = slices.DeleteFunc(p.silent, func(g string) bool { return g == gateway })
}

// legacy is what was taken from one gateway.
type legacy struct {
	flows []pending.Entry
	over  bool // there is nothing more to take, or it is another's to take
}

// inherit takes flows out of a gateway's set, if its lease has ended.
func (p *Pending) inherit(ctx context.Context, gateway string, limit int) (legacy, error) {
	values, err := inheritScript.Exec(ctx, p.c.get(), keysOf(gateway), []string{"heir " + p.token, millis(p.cfg.Lease), strconv.Itoa(limit)}).AsStrSlice()
	if rueidis.IsRedisNil(err) {
		return legacy{over: true}, nil
	}
	if err != nil || len(values) == 0 {
		return legacy{}, err
	}
	taken := legacy{flows: parseFlows(values[1:])}
	if values[0] == "0" {
		return taken, nil
	}
	taken.over = true
	p.cfg.Log.Warn("the pending set of a gateway that is gone was taken over", "set", keysOf(gateway)[0])
	// Where this fails, the set is taken over once more, and is empty.
	_ = forgetScript.Exec(ctx, p.c.get(), []string{gatewaysKey}, []string{gateway, millis(p.cfg.Lease)}).Error()
	return taken, nil
}

// Close gives the set back, for a second at most: what is left of it belongs to
// connections that are gone. It may be called again.
func (p *Pending) Close() error {
	p.mu.Lock()
	again := p.closed
	p.closed = true
	p.mu.Unlock()
	if again {
		return nil
	}
	p.stop()
	p.running.Wait()
	p.unlisten()
	if p.c.get() == nil || p.c.Health() != nil {
		return nil
	}
	p.talk <- struct{}{} // what still talks ends by its time-outs
	defer func() { <-p.talk }()
	// If it fails, the lease ends by itself.
	_, _ = exchange(func(ctx context.Context) (none, error) {
		return none{}, errors.Join(releaseScript.Exec(ctx, p.c.get(), p.keys, []string{p.token}).Error(),
			forgetScript.Exec(ctx, p.c.get(), []string{gatewaysKey}, []string{p.cfg.Gateway, "0"}).Error())
	})
	return nil
}
