package campaign

import (
	"errors"
	"fmt"
	"time"

	"github.com/impart-im/impart"
)

// operate is a step of the operator. What needs a server waits until there is one.
func (r *Run) operate(s *Step) error {
	switch s.Do {
	case Kill:
		r.world.Kill()
		r.down = s.Size + 1
		if s.Death.Point == "" {
			return nil
		}
		if err := r.pass(s.Size); err != nil {
			return err
		}
		r.down = 0
		return r.world.Start(s.Death)
	case Drain:
		if r.down > 0 || r.world.Died() {
			return nil
		}
		r.down = s.Size + 1
		return r.world.Drain()
	}
	if err := r.up(); err != nil {
		return err
	}
	if s.Do == Raise || s.Do == Backup || s.Do == Restore { // the operator waits until all is well
		if err := r.mend(true); err != nil {
			return err
		}
	}
	switch s.Do {
	case Join, Part:
		began := r.tape.Begin()
		err := r.world.Member(r.ctx, s.Do == Join, s.Conv, s.User)
		r.tape.Member(began, s.Do == Join, s.Conv, s.User, err == nil)
	case Raise:
		epoch, err := r.raise()
		if err != nil {
			r.tape.MayEpoch()
			return r.unlessDead(err)
		}
		r.tape.Epoch(epoch)
	case Backup:
		return r.backup()
	case Restore:
		return r.restore(s)
	}
	return nil
}

// raise raises the epoch, and asks again where that is said to be worth it: nodes may
// still be judging what the database has become.
func (r *Run) raise() (impart.Epoch, error) {
	for began := time.Now(); ; {
		epoch, err := r.world.RaiseEpoch(r.ctx)
		var refusal *impart.Error
		if !errors.As(err, &refusal) || refusal.Code != impart.Unavailable || r.world.Died() || time.Since(began) > r.world.Patience() {
			return epoch, err
		}
		r.tape.MayEpoch()
		r.sleep(r.world.Beat())
	}
}

// unlessDead is err, unless the server has died and could not help it. Its last
// connection may have ended a moment before it was seen to be gone.
func (r *Run) unlessDead(err error) error {
	for range 10 {
		if r.world.Died() {
			return nil
		}
		r.sleep(r.world.Beat() / 5)
	}
	return err
}

func (r *Run) backup() error {
	if err := r.world.Keep(); err != nil {
		return fmt.Errorf("a backup of the server: %w", err)
	}
	return nil
}

// restore brings the server back to its backup under a raised epoch, before any
// device can reach it.
func (r *Run) restore(s *Step) error {
	r.world.Kill()
	// What was answered before is told to the applications before the era ends.
	r.sleep(r.world.Beat())
	old, err := r.quietly(r.logs)
	if err != nil {
		return err
	}
	r.tape.Ends(r.epoch, old)
	if err := r.world.Restore(); err != nil {
		return err
	}
	var epoch impart.Epoch
	back, err := r.quietly(func() (map[impart.ConvID][]impart.Event, error) {
		logs, err := r.logs()
		if err == nil {
			epoch, err = r.raise()
		}
		return logs, err
	})
	if err != nil {
		return err
	}
	r.tape.Restored(epoch, back)
	r.down = s.Size + 1
	return nil
}

// quietly starts the server where no device can reach it, looks, and kills it.
func (r *Run) quietly(look func() (map[impart.ConvID][]impart.Event, error)) (map[impart.ConvID][]impart.Event, error) {
	for _, n := range r.networks() {
		n.Set(Weather{Off: true})
	}
	if err := r.world.Start(Death{}); err != nil {
		return nil, err
	}
	logs, err := look()
	r.world.Kill()
	for _, n := range r.networks() {
		n.Set(Weather{})
	}
	return logs, err
}

func (r *Run) networks() []Network {
	var all []Network
	for _, p := range r.phones {
		all = append(all, p.net)
		if p.twin != nil {
			all = append(all, p.twin.net)
		}
	}
	return all
}
