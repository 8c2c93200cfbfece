package campaign

import (
	"fmt"
	"slices"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// Lengths of spells, in beats. The ladder of retries ends after 26 s, and a sweep
// comes every 5 s: 52 and 10 beats.
const (
	muteFor  = 160
	quietFor = 70
	stuckFor = 20
)

// spell is a while in which the network treats a device in one way and others send.
func (r *Run) spell(s *Step) error {
	p := r.phones[s.Phone]
	if err := r.up(); err != nil {
		return err
	}
	if p.client == nil || p.twin != nil {
		return nil
	}
	if err := r.awaitOnline(p); err != nil {
		return err
	}
	switch s.Do {
	case Mute:
		return r.mute(p, s)
	case Quiet:
		return r.quiet(p, s)
	case Unheard:
		return r.unheard(p, s)
	}
	return r.stuck(p, s)
}

func (r *Run) say(s *Step, n int, text func(impart.CMID) string) bool {
	cmid := impart.CMID(fmt.Sprintf("%s-%d", s.CMID, n))
	return r.post(impart.Send{Sender: s.User, Conv: s.Conv, CMID: cmid, Body: text(cmid)})[0].Err == nil
}

func small(cmid impart.CMID) string { return body(cmid, 20) }

// mute: a device stores and acknowledges nothing. The server's cursor of it stays
// where it is (D3), and the retries end (D10), which the tap looks after.
func (r *Run) mute(p *phone, s *Step) error {
	// A new install may choose to start near the head.
	if p.History != nil || !p.online() || !p.net.Lose("ack") {
		return nil
	}
	defer p.net.Lose()
	r.say(s, 0, small)
	if err := r.pass(4); err != nil { // an ack may be late, on its way
		return err
	}
	before, err := r.world.Cursors(r.ctx, p.User, p.Device.Device)
	if err != nil {
		return nil
	}
	r.say(s, 1, small)
	if err := r.pass(muteFor); err != nil {
		return err
	}
	after, err := r.world.Cursors(r.ctx, p.User, p.Device.Device)
	if err == nil && after[s.Conv] > before[s.Conv] {
		r.tape.Wrong("D3", "the server's cursor of %s in %s moved from %d to %d, and no ack reached it", p.store.Name, s.Conv, before[s.Conv], after[s.Conv])
	}
	return nil
}

// quiet: a device gets no push and no retry, while its connection lives. The
// sweep alone can tell it (D5).
func (r *Run) quiet(p *phone, s *Step) error {
	online := p.online()
	if !p.net.Lose("event", "retry") {
		return nil
	}
	defer p.net.Lose()
	if !r.say(s, 0, small) {
		return nil
	}
	_, mid, _ := r.tape.Placed(s.User, impart.CMID(fmt.Sprintf("%s-%d", s.CMID, 0)))
	if err := r.pass(quietFor); err != nil || !online || !p.online() {
		return err
	}
	events, err := p.client.Events(r.ctx, s.Conv, 0, 10_000)
	if err == nil && !slices.ContainsFunc(events, func(ev impart.Event) bool { return ev.MID == mid }) && !r.tape.Undone(mid) {
		r.tape.Wrong("D5", "%s was not told of %s of %s, whose pushes were lost", p.store.Name, s.CMID, s.User)
	}
	return err
}

// online reports whether the device is connected and says that it has caught up.
func (p *phone) online() bool { return p.client.Status().State == client.Online }

// unheard: a message is stored, its sender hears nothing of that, and it is taken
// back: it may come back on no road, and with no text (D17).
func (r *Run) unheard(p *phone, s *Step) error {
	if !p.net.Lose("sent", "synced", "pulled") {
		return nil
	}
	defer p.net.Lose()
	if err := p.send(s.Conv, s.CMID, body(s.CMID, 30)); err != nil {
		return err
	}
	if err := r.pass(3); err != nil {
		return err
	}
	var other *phone
	for _, o := range r.phones {
		if o != p && o.User == p.User && o.client != nil {
			other = o
		}
	}
	if other == nil || s.Size == 0 {
		if err := p.cancel(s.CMID); err != nil {
			return err
		}
	} else if err := other.recall(s.Conv, s.CMID); err != nil {
		return err
	}
	if err := r.pass(14); err != nil {
		return err
	}
	// The answer to the resend comes first, and does not know of the recall.
	p.net.Lose("synced", "pulled")
	return r.pass(24)
}

// stuck: a device takes nothing while more is pushed to it than may wait (D15,
// which the tap looks after).
func (r *Run) stuck(p *phone, s *Step) error {
	p.net.Hold()
	defer p.net.Release()
	for i := range 14 { // one after the other, for what is pushed together counts as one
		r.say(s, i, big)
		if err := r.pass(1); err != nil {
			return err
		}
	}
	return r.pass(stuckFor)
}
