package random

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// action is one kind of step, with how often it is drawn.
type action struct {
	weight int
	do     func(w *world)
}

// actions are the steps of a schedule.
var actions = []action{
	{30, post}, {10, burst}, {6, join}, {6, leave}, {6, cut}, {4, away}, {5, recall}, {3, reinstall}, {3, rollBack},
	{6, resend}, {4, askTooMuch}, {4, ackBack}, {5, mixedBatch}, {3, collide}, {3, outOfOrder}, {3, losePushes}, {2, raiseEpoch}, {4, crash}, {8, rest},
}

// step draws and takes one step.
func (w *world) step() {
	total := 0
	for _, a := range actions {
		total += a.weight
	}
	n := w.rng.IntN(total)
	for _, a := range actions {
		if n -= a.weight; n < 0 {
			a.do(w)
			return
		}
	}
}

func post(w *world) { pick(w, w.phones).Post(pick(w, w.convs).id, w.body()) }

func burst(w *world) {
	p, conv := pick(w, w.phones), pick(w, w.convs).id
	for range 2 + w.rng.IntN(8) {
		p.Post(conv, w.body())
	}
}

// changing are the conversations whose members change, and the users who come and go.
func (w *world) someMember() (conv, user string) {
	return w.convs[1+w.rng.IntN(2)].id, pick(w, w.users)
}

func join(w *world)  { w.admin(http.MethodPut, memberPath(w.someMember())) }
func leave(w *world) { w.admin(http.MethodDelete, memberPath(w.someMember())) }

func cut(w *world) { pick(w, w.phones).link.Cut() }

func away(w *world) {
	p := pick(w, w.phones)
	p.Stop()
	p.Start()
}

func rest(w *world) { time.Sleep(time.Duration(w.rng.IntN(40)) * time.Millisecond) }

// crash kills the process, often with requests in flight, and starts it again.
func crash(w *world) {
	if w.rng.IntN(2) == 0 {
		burst(w)
		time.Sleep(time.Duration(w.rng.IntN(4000)) * time.Microsecond)
	}
	w.server.Kill()
	w.server.MustRestart(w.t)
}

// losePushes makes a device lose live events and retry hints, so that only the
// sweep can tell it what it lacks; or ends that.
func losePushes(w *world) {
	p := pick(w, w.phones)
	if w.rng.IntN(2) == 0 {
		p.link.Drop(nil)
	} else {
		p.link.Drop(lossy)
	}
	p.link.Cut()
}

// lossy drops live events and retry hints.
func lossy(payload []byte) bool {
	return bytes.HasPrefix(payload, []byte(`{"t":"event"`)) || bytes.Contains(payload, []byte(`"why":"retry"`))
}

// reinstall gives a device a new, empty store (D9).
func reinstall(w *world) {
	p := pick(w, w.phones)
	p.Stop()
	w.retire(p.Device)
	p.Device, p.backup = w.device(p), nil
	p.Start()
}

// rollBack takes a backup of a device's store, or restores the one there is (D9, hole 20).
func rollBack(w *world) {
	p := pick(w, w.phones)
	if p.backup == nil {
		p.backup = p.Clone()
		return
	}
	p.Stop()
	w.retire(p.Device)
	p.Device, p.backup = p.backup, nil
	p.Start()
}

func raiseEpoch(w *world) { w.admin(http.MethodPost, "epoch") }

// someSent is a message that some device knows to be stored.
func (w *world) someSent() (rawclient.Receipt, bool) {
	sents := w.sents()
	if len(sents) == 0 {
		return rawclient.Receipt{}, false
	}
	return pick(w, sents), true
}

// recall takes a stored message back, in its sender's name.
func recall(w *world) {
	r, ok := w.someSent()
	c := w.probe(r.User)
	if !ok || c == nil {
		return
	}
	defer c.Close()
	w.made++
	f, ok := w.ask(c, "r", map[string]any{"t": "recall", "rid": "r", "conv": r.Conv, "seq": r.Seq, "cmid": fmt.Sprint("recall-", w.made), "mid": r.Mid})
	if ok && f.T() == "sent" {
		w.mu.Lock()
		w.recalled[r.Body] = true
		w.mu.Unlock()
	}
}

// resend repeats a stored message, as it was and with another body (D2, D12, D17).
func resend(w *world) {
	r, ok := w.someSent()
	c := w.probe(r.User)
	if !ok || c == nil {
		return
	}
	defer c.Close()
	again := map[string]any{"t": "send", "rid": "s", "conv": r.Conv, "cmid": r.CMID, "body": r.Body}
	if f, ok := w.ask(c, "s", again); ok && (f.T() != "sent" || !f.Bool("dup") || f.Int("seq") != r.Seq || f.Str("mid") != r.Mid) {
		w.fail("D2: a resend of %s's %s (seq %d, mid %s) in %s was answered %s", r.User, r.CMID, r.Seq, r.Mid, r.Conv, f.Object)
	}
	again["rid"], again["body"] = "t", r.Body+"!"
	if f, ok := w.ask(c, "t", again); ok && f.Str("code") != "CMID_REUSED" {
		w.fail("D12: another body under %s's %s was answered %s", r.User, r.CMID, f.Object)
	}
}

// askTooMuch acknowledges what is not there (D4).
func askTooMuch(w *world) {
	user := pick(w, w.users)
	c := w.probe(user)
	if c == nil {
		return
	}
	defer c.Close()
	for i, seq := range []int64{1 << 40, -1} {
		rid := fmt.Sprint("k", i)
		f, ok := w.ask(c, rid, map[string]any{"t": "ack", "rid": rid, "conv": "c-all", "seq": seq})
		if ok && f.Str("code") != "CURSOR_AHEAD" {
			w.fail("D4: an ack of %d was answered %s", seq, f.Object)
		}
	}
}

// ackBack acknowledges less than before (D4).
func ackBack(w *world) {
	c := w.probe(pick(w, w.users))
	if c == nil {
		return
	}
	defer c.Close()
	w.made++
	sent, ok := w.ask(c, "s", map[string]any{"t": "send", "rid": "s", "conv": "c-all", "cmid": fmt.Sprint("back-", w.made), "body": w.body()})
	if !ok || sent.T() != "sent" {
		return
	}
	for i, seq := range []int64{sent.Int("seq"), sent.Int("seq") - 1} {
		rid := fmt.Sprint("k", i)
		f, ok := w.ask(c, rid, map[string]any{"t": "ack", "rid": rid, "conv": "c-all", "seq": seq})
		if ok && f.T() == "acked" && f.Int("delivered") < sent.Int("seq") {
			w.fail("D4: after an ack of %d, one of %d was answered %s", sent.Int("seq"), seq, f.Object)
		}
	}
}

// mixedBatch pipelines good messages with ones that must fail alone (D13), and
// which must not use up a seq (D7).
func mixedBatch(w *world) {
	user := pick(w, w.users)
	c := w.probe(user)
	if c == nil {
		return
	}
	defer c.Close()
	var rids []string
	for i, conv := range []string{"c-all", "c-nowhere", "c-all", "c-all"} {
		w.made++
		rid := fmt.Sprint("b", i)
		rids = append(rids, rid)
		frame := map[string]any{"t": "send", "rid": rid, "conv": conv, "cmid": fmt.Sprint("batch-", w.made), "body": w.body()}
		if i == 2 {
			frame["body"] = strings.Repeat("x", 1<<16+1)
		}
		if c.JSON(frame) != nil {
			return
		}
	}
	for i, want := range []string{"", "NOT_MEMBER", "TOO_LARGE", ""} {
		f, err := c.Reply(w.t.Context(), rids[i])
		if err != nil {
			return
		}
		if f.Str("code") != want {
			w.fail("D13: message %d of a mixed batch was answered %s, want %q", i, f.Object, want)
		}
	}
}

// collide sends two messages whose sender and cmid are the same text when they
// are joined without a border (D12).
func collide(w *world) {
	w.made++
	for _, key := range [][2]string{{"a", fmt.Sprint("b:k-", w.made)}, {"a:b", fmt.Sprint("k-", w.made)}} {
		c := w.probe(key[0])
		if c == nil {
			return
		}
		f, ok := w.ask(c, "s", map[string]any{"t": "send", "rid": "s", "conv": "c-all", "cmid": key[1], "body": w.body()})
		c.Close()
		if ok && (f.T() == "sent" && f.Bool("dup") || f.Str("code") == "CMID_REUSED") {
			w.fail("D12: a new message of %s was answered %s", key[0], f.Object)
		}
	}
}

// outOfOrder sends a message whose predecessor was never stored (D14).
func outOfOrder(w *world) {
	c := w.probe(pick(w, w.users))
	if c == nil {
		return
	}
	defer c.Close()
	w.made++
	f, ok := w.ask(c, "s", map[string]any{
		"t": "send", "rid": "s", "conv": "c-all", "cmid": fmt.Sprint("late-", w.made), "prev": fmt.Sprint("never-", w.made), "body": w.body(),
	})
	if ok && (f.Str("code") != "OUT_OF_ORDER" || !f.Bool("retry")) {
		w.fail("D14: a message before its predecessor was answered %s", f.Object)
	}
}
