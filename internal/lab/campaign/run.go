package campaign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
	"github.com/impart-im/impart/internal/lab/campaign/history"
)

// Run is one plan at work in a world.
type Run struct {
	ctx    context.Context
	plan   *Plan
	world  World
	tape   *history.Tape
	phones []*phone
	down   int // beats until the server is started again; 0: it runs
	broken []broken
	epoch  impart.Epoch // the newest in which a page was read
	note   func(string)
}

// Result is what a run has shown.
type Result struct {
	Seed     uint64
	Findings []history.Finding
}

// Execute runs a plan and judges it. The world's server has not been started. An
// error means that the run could not be carried out, and shows nothing. note is
// told of each step; nil is fine.
func Execute(ctx context.Context, plan *Plan, world World, note func(string)) (Result, error) {
	if note == nil {
		note = func(string) {}
	}
	r := &Run{ctx: ctx, plan: plan, world: world, note: note}
	err := r.execute()
	if r.tape == nil {
		return Result{Seed: plan.Seed}, err
	}
	return Result{Seed: plan.Seed, Findings: r.tape.Findings()}, err
}

func (r *Run) execute() (err error) {
	if err := r.world.Start(Death{}); err != nil {
		return err
	}
	for _, c := range r.plan.Convs {
		spec := impart.ConvSpec{Conv: c.ID, Kind: impart.Group, History: c.History}
		for _, u := range c.Founders {
			spec.Members = append(spec.Members, impart.Member{User: u})
		}
		if err := r.world.Create(r.ctx, spec); err != nil {
			return fmt.Errorf("a conversation cannot be made: %w", err)
		}
	}
	r.tape = history.New(r.plan.Convs, 1)
	if watched, ok := r.world.(interface{ Watch(*history.Tape, *Plan) }); ok {
		watched.Watch(r.tape, r.plan)
	}
	defer func() {
		err = errors.Join(err, r.mend(true))
		for _, p := range r.phones {
			if p.twin != nil {
				err = errors.Join(err, p.twin.stop())
			}
			err = errors.Join(err, p.stop())
		}
	}()
	for i, d := range r.plan.Phones {
		p := r.newPhone(i, d)
		r.phones = append(r.phones, p)
		if err := p.start(); err != nil {
			return err
		}
	}
	for i := range r.plan.Steps {
		s := &r.plan.Steps[i]
		if err := r.pass(s.Wait); err != nil {
			return err
		}
		r.note(s.String())
		if err := r.step(s); err != nil {
			return fmt.Errorf("step %d (%s): %w", i, s, err)
		}
	}
	if err := r.heal(); err != nil {
		return err
	}
	return r.judge()
}

// pass lets beats pass. A server that is down is started when it is time, and one
// that has died by itself counts as killed.
func (r *Run) pass(beats int) error {
	for range beats {
		r.sleep(r.world.Beat())
		if err := r.mend(false); err != nil {
			return err
		}
		if err := r.revive(); err != nil {
			return err
		}
	}
	return r.ctx.Err()
}

func (r *Run) revive() error {
	if r.down == 0 && r.world.Died() {
		r.note("the server has died")
		r.world.Kill()
		r.down = 3
	}
	if r.down == 0 {
		return nil
	}
	if r.down--; r.down > 0 {
		return nil
	}
	return r.world.Start(Death{})
}

// up makes sure that the server runs.
func (r *Run) up() error {
	for r.down > 0 || r.world.Died() {
		if err := r.pass(1); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.ctx.Done():
	}
}

// body is the text of a message: no other has it, and it can be found in a file.
func body(cmid impart.CMID, size int) string {
	text := fmt.Sprintf("<%s>", cmid)
	return text + strings.Repeat("x", max(0, size-len(text)))
}

// logs reads every conversation as the auditor sees it.
func (r *Run) logs() (map[impart.ConvID][]impart.Event, error) {
	logs := map[impart.ConvID][]impart.Event{}
	for _, c := range r.plan.Convs {
		log, err := r.read(Auditor, c.ID, 500)
		if err != nil {
			return nil, err
		}
		logs[c.ID] = log
	}
	return logs, nil
}

// read reads what a user may see of a conversation.
func (r *Run) read(user impart.UserID, conv impart.ConvID, limit int) ([]impart.Event, error) {
	var all []impart.Event
	after := impart.Seq(0)
	for {
		page, err := r.world.Page(r.ctx, user, conv, after, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Events...)
		r.epoch = max(r.epoch, page.Epoch)
		if !page.More {
			return all, nil
		}
		if page.Through <= after {
			return all, fmt.Errorf("a page of %s after %d says that there is more, and leads to %d", conv, after, page.Through)
		}
		after = page.Through
	}
}

// heal ends all faults, without cutting a connection, and waits until all has
// come to rest. What has not by then is a finding.
func (r *Run) heal() error {
	r.note("heal")
	if err := r.mend(true); err != nil {
		return err
	}
	if err := r.up(); err != nil {
		return err
	}
	for _, p := range r.phones {
		if p.twin != nil {
			if err := r.unclone(p); err != nil {
				return err
			}
		}
		p.accept()
		p.net.Lose()
		p.net.Release()
		p.net.Set(Weather{})
		if p.client == nil {
			if err := p.start(); err != nil {
				return err
			}
		}
	}
	began, calm := time.Now(), 0
	for pause := 1; ; pause = min(2*pause, 20) {
		online := r.online()
		f, err := r.final()
		if err == nil && online && len(r.tape.Unsettled(f)) == 0 {
			if calm++; calm == 2 { // also what was on its way has come
				return nil
			}
		} else {
			calm = 0
		}
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		if time.Since(began) > r.world.Patience() {
			return err
		}
		if err := r.pass(pause); err != nil {
			return err
		}
	}
}

// online reports whether every application is connected: one that is about to be
// may have a hello under way that takes back all that counts as delivered. A clone
// that is gone may have left a hello on its way, too; the user takes the device back.
func (r *Run) online() bool {
	all := true
	for _, p := range r.phones {
		switch p.client.Status().State {
		case client.Online:
		case client.Stopped:
			p.client.Reconnect()
			all = false
		default:
			all = false
		}
	}
	return all
}

// final looks at everything.
func (r *Run) final() (*history.Final, error) {
	logs, err := r.logs()
	if err != nil {
		return nil, fmt.Errorf("the logs cannot be read: %w", err)
	}
	f := &history.Final{Logs: logs, Fresh: map[impart.UserID]map[impart.ConvID][]impart.Event{}}
	for _, p := range r.phones {
		h, err := p.holds()
		if err != nil {
			return nil, err
		}
		f.Held = append(f.Held, h)
	}
	return f, nil
}

func (r *Run) judge() error {
	f, err := r.whole()
	if err != nil {
		r.tape.Wrong("D1", "%v", err)
		return nil
	}
	r.tape.Judge(f)
	for _, p := range r.phones {
		if err := r.searchFile(p, f.Logs); err != nil {
			return err
		}
	}
	return nil
}

// whole looks at everything, and again where a log has grown meanwhile: a store may
// still be at a message whose sender has given up waiting and does not know of it.
func (r *Run) whole() (*history.Final, error) {
	for {
		f, err := r.final()
		if err != nil {
			return nil, err
		}
		for _, user := range r.plan.Users {
			if f.Fresh[user], err = r.fresh(user); err != nil {
				return nil, err
			}
		}
		again, err := r.logs()
		if err != nil || length(again) == length(f.Logs) {
			return f, err
		}
		if err := r.pass(1); err != nil {
			return nil, err
		}
	}
}

// fresh is what a new device of a user reads, in small pages, so that what lies
// between them counts too.
func (r *Run) fresh(user impart.UserID) (map[impart.ConvID][]impart.Event, error) {
	read := map[impart.ConvID][]impart.Event{}
	for _, c := range r.plan.Convs {
		log, err := r.read(user, c.ID, 7)
		if err != nil && impart.CodeOf(err) != impart.NotMember {
			r.tape.Wrong("D5", "%s cannot read %s: %v", user, c.ID, err)
		}
		read[c.ID] = log
	}
	return read, r.ctx.Err()
}

// length is how many events logs have.
func length(logs map[impart.ConvID][]impart.Event) (n int) {
	for _, log := range logs {
		n += len(log)
	}
	return n
}

// searchFile ends an application and looks for texts that were recalled into all
// rows that its store holds (D17), those that nobody asks for too.
func (r *Run) searchFile(p *phone, logs map[impart.ConvID][]impart.Event) error {
	if err := p.stop(); err != nil {
		return err
	}
	if err := compact(p.path); err != nil {
		return err
	}
	data, err := os.ReadFile(p.path)
	if err != nil {
		return err
	}
	for _, log := range logs {
		for i := range log {
			if ev := &log[i]; ev.Recalled && bytes.Contains(data, []byte(body(ev.CMID, 0))) {
				r.tape.Wrong("D17", "the store of %s still holds the text of %s %d, which is recalled", p.store.Name, ev.Conv, ev.Seq)
			}
		}
	}
	return nil
}
