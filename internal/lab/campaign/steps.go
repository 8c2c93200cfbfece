package campaign

import (
	"fmt"
	"path/filepath"

	"github.com/impart-im/impart"
)

// step takes one step. An error means that it could not be taken at all.
func (r *Run) step(s *Step) error {
	p := r.phones[min(s.Phone, len(r.phones)-1)] // of a node it is another number
	switch s.Do {
	case Kill, Drain, Backup, Restore, Raise, Join, Part:
		return r.operate(s)
	case NodeKill, NodeDrain, NodePause, NodeCut, DBStop, DBKill, DBPause, Promote,
		LogicKill, EdgeKill, LogicPause, HopCut, RedisKill, RedisPause, RedisWipe:
		return r.breakDown(s)
	case Look, Resend, Batch, Collide, Early, AckBack, AckFar:
		return r.observe(s)
	case Mute, Quiet, Stuck, Unheard:
		return r.spell(s)
	case Net:
		p.net.Set(s.Net)
		return nil
	case CutIt:
		p.net.Cut()
		return nil
	case Rest:
		return nil
	case Return:
		if p.client == nil {
			return p.start()
		}
		return nil
	}
	if p.client == nil {
		return nil // a device that was away when the step was drawn in does nothing
	}
	return r.use(p, s)
}

// use is a step of a device that runs.
func (r *Run) use(p *phone, s *Step) error {
	switch s.Do {
	case SendAgain:
		if r.tape.TakenBack(p.User, s.CMID) {
			return nil
		}
		return p.send(s.Conv, s.CMID, body(s.CMID, s.Size))
	case Send:
		return p.send(s.Conv, s.CMID, body(s.CMID, s.Size))
	case Recall:
		return p.recall(s.Conv, s.CMID)
	case Cancel:
		return p.cancel(s.CMID)
	case Read:
		return p.read(s.Conv)
	case Restart:
		return r.anew(p, p.stop)
	case Crash:
		return r.anew(p, p.crash)
	case CrashHand:
		return r.crashHanding(p)
	case CrashAck:
		return r.crashAcking(p, s)
	case Leave:
		return p.stop()
	case Reinstall:
		return r.reinstall(p)
	case Keep:
		return r.keep(p)
	case RollBack:
		return r.rollBack(p)
	case Clone:
		return r.clone(p)
	case Unclone:
		return r.unclone(p)
	case Refuse:
		p.mu.Lock()
		p.refuse = true
		p.mu.Unlock()
	case Accept:
		p.accept()
	}
	return nil
}

func (p *phone) accept() {
	p.mu.Lock()
	p.refuse = false
	p.mu.Unlock()
}

// anew ends an application in some way and starts it again.
func (r *Run) anew(p *phone, end func() error) error {
	if err := end(); err != nil {
		return err
	}
	return p.start()
}

// crashHanding kills an application while it is being handed an event, if there
// is one within a few beats.
func (r *Run) crashHanding(p *phone) error {
	caught := make(chan struct{})
	p.mu.Lock()
	p.die, p.caught = true, caught
	p.mu.Unlock()
	for range 10 {
		select {
		case <-caught:
			return r.anew(p, p.crash)
		default:
			if err := r.pass(1); err != nil {
				return err
			}
		}
	}
	p.mu.Lock()
	p.die = false
	p.mu.Unlock()
	select {
	case <-caught: // just now
	default:
	}
	return r.anew(p, p.crash)
}

// crashAcking kills an application at the moment in which its next ack leaves it.
// What was acknowledged has to be in the store (D3), also above a push that was lost.
func (r *Run) crashAcking(p *phone, s *Step) error {
	if p.net.Lose("event") {
		r.say(s, 0, small)
		p.net.Lose()
	}

	type left struct {
		acks []impart.AckItem
		err  error
	}
	from, path := p.path, p.path+".ack"
	done := make(chan left, 1)
	client := p.client
	caught := func(acks []impart.AckItem) {
		if !p.dies(client) {
			return // it has ended in another way by now
		}
		done <- left{acks, crashCopy(from, path)}
	}
	if !p.net.OnAck(caught) {
		return r.anew(p, p.crash)
	}
	r.say(s, 1, small)
	for range 10 {
		select {
		case l := <-done:
			if l.err != nil {
				return l.err
			}
			if err := p.becomes(path); err != nil {
				return err
			}
			return r.checkAcked(p, l.acks)
		default:
			if err := r.pass(1); err != nil {
				return err
			}
		}
	}
	p.net.OnAck(nil)
	return r.anew(p, p.crash)
}

// checkAcked starts the application without a network and compares.
func (r *Run) checkAcked(p *phone, acks []impart.AckItem) error {
	p.net.Set(Weather{Off: true})
	defer p.net.Set(Weather{})
	if err := p.start(); err != nil {
		return err
	}
	stored, err := p.stored()
	if err != nil {
		return err
	}
	for _, a := range acks {
		if a.Seq > stored[a.Conv] {
			r.tape.Wrong("D3", "%s acknowledged %s up to %d, and its store has it up to %d", p.store.Name, a.Conv, a.Seq, stored[a.Conv])
		}
	}
	return nil
}

func (r *Run) reinstall(p *phone) error {
	if err := p.stop(); err != nil {
		return err
	}
	p.store.Lost()
	removeStore(p.path)
	p.newStore(nil)
	return p.start()
}

// keep puts a copy of the store aside, as a backup of the phone does.
func (r *Run) keep(p *phone) error {
	if err := p.stop(); err != nil {
		return err
	}
	p.kept = filepath.Join(r.world.Dir(), fmt.Sprintf("kept-%d.db", p.number))
	removeStore(p.kept)
	if err := crashCopy(p.path, p.kept); err != nil {
		return err
	}
	p.keptView = p.store.Copy()
	return p.start()
}

func (r *Run) rollBack(p *phone) error {
	if p.kept == "" {
		return nil
	}
	had, err := p.stored()
	if err != nil {
		return err
	}
	epoch := p.client.Status().Epoch
	if err := p.stop(); err != nil {
		return err
	}
	p.store.Lost()
	kept := p.kept
	p.kept = ""
	p.newStore(p.keptView)
	if err := crashCopy(kept, p.path); err != nil {
		return err
	}
	if err := p.start(); err != nil {
		return err
	}
	return r.checkRegained(p, had, epoch)
}

// checkRegained looks whether a device that came back with an older store gets
// what it once had, though nothing new may be said (D9).
func (r *Run) checkRegained(p *phone, had map[impart.ConvID]impart.Seq, epoch impart.Epoch) error {
	if err := r.awaitOnline(p); err != nil {
		return err
	}
	if err := r.pass(4); err != nil || !p.online() || p.client.Status().Epoch != epoch {
		return err
	}
	has, err := p.stored()
	for conv, seq := range had {
		if has[conv] < seq {
			r.tape.Wrong("D9", "%s came back with an older store of %s, up to %d, and was not given what it had, up to %d", p.store.Name, conv, has[conv], seq)
		}
	}
	return err
}

// awaitOnline mends the network of a device and waits until it is online, or for
// a while.
func (r *Run) awaitOnline(p *phone) error {
	p.net.Set(Weather{})
	for range 40 {
		if err := r.pass(1); err != nil || p.online() {
			return err
		}
	}
	return nil
}

// stored is how far a store holds each conversation.
func (p *phone) stored() (map[impart.ConvID]impart.Seq, error) {
	convs, err := p.client.Conversations(p.run.ctx)
	has := map[impart.ConvID]impart.Seq{}
	for _, c := range convs {
		has[c.Conv] = c.Stored
	}
	return has, err
}

// clone lets a copy of the store run at the same time, as a second machine does.
func (r *Run) clone(p *phone) error {
	if p.twin != nil {
		return nil
	}
	if err := p.stop(); err != nil {
		return err
	}
	twin := &phone{Device: p.Device, run: r, number: 100 + p.number, net: r.world.Network(100 + p.number), stores: p.stores}
	twin.newStore(p.store.Copy())
	if err := crashCopy(p.path, twin.path); err != nil {
		return err
	}
	p.twin = twin
	p.starts, p.byes = 0, byes(p)+byes(twin)
	if err := p.start(); err != nil {
		return err
	}
	if err := twin.start(); err != nil {
		return err
	}
	return r.pass(cloneFor)
}

// cloneFor is how many beats two machines with one store have to fight at least.
const cloneFor = 60

// byes is how often a device was told that another connection has taken over.
func byes(p *phone) int { return p.net.Byes() }

func (r *Run) unclone(p *phone) error {
	if p.twin == nil {
		return nil
	}
	twin := p.twin
	p.twin = nil
	// Each start takes the device over once. More often they kick each other.
	if got, most := byes(p)+byes(twin)-p.byes, p.starts+2; got > most {
		r.tape.Wrong("D9", "%s and its clone took the device from each other %d times, after %d starts", p.store.Name, got, p.starts+1)
	}
	if err := twin.stop(); err != nil {
		return err
	}
	twin.store.Lost()
	removeStore(twin.path)
	if p.client != nil {
		p.client.Reconnect()
	}
	return nil
}
