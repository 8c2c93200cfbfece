package random

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// settleTime bounds how long a healed world may take to agree.
const settleTime = 20 * time.Second

// heal ends all faults and waits until every outbox is empty and every device
// holds what it may see; what still differs after settleTime is wrong.
func (w *world) heal() {
	for _, p := range w.phones {
		p.link.Drop(nil)
		p.link.Cut()
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), settleTime)
	defer cancel()
	for _, p := range w.phones {
		if err := p.AwaitSettled(ctx); err != nil {
			w.fail("D16: %v", err)
		}
	}
	for {
		wrong := w.disagreements()
		if len(wrong) == 0 {
			return
		}
		if ctx.Err() != nil {
			for _, f := range wrong {
				w.fail("%s", f)
			}
			return
		}
		time.Sleep(30 * time.Millisecond)
	}
}

// disagreements compares every device with the log.
func (w *world) disagreements() (wrong []string) {
	for _, conv := range w.convs {
		m := newModel(conv, w.log(conv.id))
		for _, p := range w.phones {
			wrong = append(wrong, compare(p.Name()+" in "+conv.id, p.Log(conv.id), m.visible(p.user))...)
		}
	}
	return wrong
}

// judge checks the whole history.
func (w *world) judge() {
	w.heal()
	for _, conv := range w.convs {
		log := w.log(conv.id)
		m := newModel(conv, log)
		for _, f := range m.whole(conv.id, log) {
			w.fail("%s", f)
		}
		w.judgeReceipts(conv.id, m)
		w.judgeSights(conv.id, m)
	}
	w.judgeFresh()
	for _, p := range w.phones {
		for _, f := range p.Wrong() {
			w.fail("D3/D4/D9: %s", f)
		}
		// A cursor of the server that is ahead of the device's store would skip
		// messages for good: the store was compared, so ask the server too.
		w.judgeCursor(p)
	}
}

// judgeFresh: a device without a past reads exactly what its user may see, and
// no recalled body (D8, D17).
func (w *world) judgeFresh() {
	for _, user := range w.users {
		c := w.probe(user)
		if c == nil {
			w.fail("%s cannot log in", user)
			continue
		}
		for _, conv := range w.convs {
			sees := newModel(conv, w.log(conv.id)).visible(user)
			ctx, cancel := context.WithTimeout(w.t.Context(), settleTime)
			events, _, err := rawclient.Fetch(ctx, c, conv.id, 0, 7)
			cancel()
			if err != nil && len(sees) > 0 {
				w.fail("D5: %s cannot read %s: %v", user, conv.id, err)
				continue
			}
			for _, f := range compare(user+"'s new device in "+conv.id, events, sees) {
				w.fail("%s", f)
			}
		}
		c.Close()
	}
}

// judgeReceipts: every "sent" that anybody saw is in the log (D1).
func (w *world) judgeReceipts(conv string, m *model) {
	for _, r := range w.sents() {
		if r.Conv != conv {
			continue
		}
		ev, ok := m.log[r.Seq]
		if !ok || ev.Mid != r.Mid || ev.CMID != r.CMID || ev.Sender != r.User || ev.Body != r.Body && !ev.Recalled {
			w.fail("D1: %s saw sent seq %d mid %s of %s, the log has %+v", r.User, r.Seq, r.Mid, r.CMID, ev)
		}
		if w.recalled[r.Body] && (!ev.Recalled || ev.Body != "") {
			w.fail("D17: %s was recalled and is %+v", r.CMID, ev)
		}
	}
}

// judgeSights: nobody was shown what they may not see (D8).
func (w *world) judgeSights(conv string, m *model) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for user, sights := range w.seen {
		sees := m.visible(user)
		for key, kind := range sights {
			if _, ok := sees[key.seq]; key.conv == conv && !ok {
				w.wrong = append(w.wrong, fmt.Sprintf("D8: %s was shown %s seq %d (%s)", user, conv, key.seq, kind))
			}
		}
	}
}

// judgeCursor waits until the server has every ack, and no more than that (D3).
func (w *world) judgeCursor(p *phone) {
	ctx, cancel := context.WithTimeout(w.t.Context(), settleTime)
	defer cancel()
	for _, conv := range w.convs {
		log := p.Log(conv.id)
		if len(log) == 0 {
			continue
		}
		last := log[len(log)-1].Seq
		if err := p.AwaitCursor(ctx, conv.id, last); err != nil {
			w.fail("D5: %v", err)
		}
	}
}

// quiet posts one message while a device gets neither live events nor retry
// hints: the sweep alone must tell it (D5).
func (w *world) quiet() {
	from, to := w.phones[0], w.phones[3]
	to.link.Drop(lossy)
	to.link.Cut()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	if err := to.AwaitOnline(ctx); err != nil {
		w.fail("D5: %v", err)
		return
	}
	body := w.body()
	from.Post("c-all", body)
	if err := from.AwaitSettled(ctx); err != nil {
		w.fail("D16: %v", err)
		return
	}
	for ctx.Err() == nil {
		if slices.ContainsFunc(to.Log("c-all"), func(ev Event) bool { return ev.Body == body }) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.fail("D5: %s was not told of a message whose pushes were lost", to.Name())
}

// restored brings a device back with the store of an older backup, under the
// same install. Nothing new is said after that: the counter n alone tells the
// server that the device lacks what it once had (D9, hole 20).
func (w *world) restored() {
	from, to := w.phones[0], w.phones[3]
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	backup := to.Clone()
	from.Post("c-all", w.body())
	if err := to.AwaitCursor(ctx, "c-all", 1); err != nil {
		w.fail("D5: %v", err)
		return
	}
	to.Stop()
	to.Device = backup
	to.Start()
	if err := to.AwaitCursor(ctx, "c-all", 1); err != nil {
		w.fail("D9: a restored store was not told what it lacks: %v", err)
	}
}

// mute counts the attempts at a device that never acknowledges (D10).
func (w *world) mute() {
	c := w.probe("u-dan")
	if c == nil {
		w.t.Fatal("the mute device cannot log in")
	}
	defer c.Close()
	if _, ok := w.ask(c, "sub", map[string]any{"t": "sub", "rid": "sub"}); !ok {
		w.fail("sub was not answered")
		return
	}
	w.phones[0].Post("c-all", w.body())
	time.Sleep(1500 * time.Millisecond) // the ladder ends after 700 ms
	attempts := 0
	for _, f := range c.Frames() {
		if f.T() == "event" || f.T() == "hint" && f.Str("why") == "retry" {
			attempts++
		}
	}
	if attempts == 0 || attempts > 4 {
		w.fail("D10: %d attempts at one unacknowledged flow, at most 4 are allowed", attempts)
	}
}

// stuck lets a reader take nothing while more is pushed than any queue may
// hold: it must find one hint instead of what was dropped (D15).
func (w *world) stuck() {
	link := w.phones[4].link
	w.phones[4].Stop()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	c, _, err := rawclient.Login(ctx, link.Addr(), rawclient.NewHello("dev:u-dan", "stuck", "i"), rawclient.DialOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	if _, ok := w.ask(c, "sub", map[string]any{"t": "sub", "rid": "sub"}); !ok {
		w.fail("sub was not answered")
		return
	}
	link.Hold()
	sender := w.probe("a")
	defer sender.Close()
	big := make([]byte, 60_000)
	for i := range big {
		big[i] = 'x'
	}
	for i := range 400 { // 24 MB, more than sockets take
		rid := fmt.Sprint("s", i)
		w.made++
		if f, ok := w.ask(sender, rid, map[string]any{"t": "send", "rid": rid, "conv": "c-all", "cmid": fmt.Sprint("big-", w.made), "body": string(big)}); !ok || f.T() != "sent" {
			w.fail("D15: a stuck reader stopped the sender: %s", f.Object)
			return
		}
	}
	link.Release()
	_, err = c.Wait(ctx, 0, func(f rawclient.Frame) bool { return f.T() == "hint" && f.Str("why") == "overflow" })
	if err != nil {
		w.fail("D15: 24 MB were queued for a reader that took nothing")
	}
}
