package campaign

import (
	"fmt"

	"github.com/impart-im/impart"
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
	p.net.Set(Weather{})
	if err := r.pass(4); err != nil { // to be online, if it can
		return err
	}
	switch s.Do {
	case Mute:
		return r.mute(p, s)
	case Quiet:
		return r.quiet(p, s)
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
	p.net.Lose("ack")
	defer p.net.Lose()
	r.say(s, 0, small)
	if err := r.pass(1); err != nil {
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
	p.net.Lose("event", "retry")
	defer p.net.Lose()
	r.say(s, 0, small)
	return r.pass(quietFor)
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
