package gateway

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
)

// together sends frames that the gateway handles in one go, after a message of
// the same connection, and returns their answers by rid.
func (cl *client) together(b *between, texts ...string) map[string]frame {
	cl.w.t.Helper()
	turn := make(chan struct{})
	b.send.set(func() { <-turn })
	cl.send(`{"t":"send","rid":"first","conv":"c-ab","cmid":"first","body":"x"}`)
	synctest.Wait()
	for _, text := range texts {
		cl.send("%s", text)
	}
	close(turn)
	answers := map[string]frame{}
	for _, f := range cl.take() {
		if rid, ok := f["rid"].(string); ok {
			answers[rid] = f
		}
	}
	return answers
}

// Acks that wait together are one request to the store, and each has its own
// answer all the same (D13).
func TestJoinedAcksAreAnsweredOneByOne(t *testing.T) {
	inBetween(t, nil, func(w *world, b *between) {
		ana := w.connect("u-ana", "d")
		var strange []string
		for i := range 600 {
			strange = append(strange, fmt.Sprintf(`{"conv":"c-none-%d","seq":1}`, i))
		}
		many := strings.Join(strange, ",")
		got := ana.together(b,
			`{"t":"ack","rid":"one","conv":"c-ab","seq":1,"n":5}`,
			`{"t":"ack","rid":"lower","conv":"c-ab","seq":0,"n":3}`,
			`{"t":"ack","rid":"stranger","conv":"c-none","seq":1}`,
			`{"t":"ack","rid":"other epoch","conv":"c-ab","seq":1,"epoch":7}`,
			`{"t":"ack","rid":"batch","acks":[{"conv":"c-ab","seq":1},{"conv":"c-none","seq":1}]}`,
			`{"t":"ack","rid":"other epochs","epoch":7,"acks":[{"conv":"c-ab","seq":1}]}`,
			`{"t":"ack","rid":"many","acks":[`+many+`]}`,
			`{"t":"ack","rid":"more","acks":[`+many+`]}`,
		)
		for rid, want := range map[string]string{
			"one": "acked", "lower": "acked", "stranger": "NOT_MEMBER", "other epoch": "EPOCH_CHANGED",
			"batch": "acked", "other epochs": "EPOCH_CHANGED", "many": "acked", "more": "acked",
		} {
			f := got[rid]
			if code, _ := f["code"].(string); f.t() != want && (f.t() != "error" || code != want) {
				t.Errorf("%s was answered with %v, want %s", rid, f, want)
			}
		}
		for _, rid := range []string{"one", "lower"} {
			if got[rid].num("delivered") != 1 {
				t.Errorf("%s: %v", rid, got[rid])
			}
		}
		batch, _ := got["batch"]["acks"].([]any)
		if len(batch) != 2 || frame(batch[0].(map[string]any)).num("delivered") != 1 || batch[1].(map[string]any)["code"] != "NOT_MEMBER" {
			t.Errorf("batch: %v", got["batch"])
		}
		for _, rid := range []string{"many", "more"} {
			if acks, _ := got[rid]["acks"].([]any); len(acks) != 600 {
				t.Errorf("%s has %d answers", rid, len(acks))
			}
		}
		again := w.dial() // with the n of a store that is older than the highest of the acks
		again.send(`{"t":"hello","token":"dev:u-ana","device":"d","install":"i-d","n":4,"proto":1}`)
		if f := again.wants("welcome"); f.num("install_epoch") != 2 {
			t.Errorf("welcome = %v", f)
		}
	})
}

// An ack is held up in the gateway while the phone, put back to before the write
// that the ack reports, says hello on a new connection (D9).
func TestAnAckOfAnOlderConnectionMovesNothing(t *testing.T) {
	inBetween(t, nil, func(w *world, b *between) {
		hello := func(n int) *client {
			cl := w.dial()
			cl.send(`{"t":"hello","token":"dev:u-ben","device":"d","install":"i","n":%d,"proto":1}`, n)
			if f := cl.wants("welcome"); f.num("install_epoch") != 1 || f.num("n") != impart.Seq(n) {
				t.Errorf("a hello with n %d is welcomed with %v", n, f)
			}
			return cl
		}
		w.connect("u-ana", "d").says("c-ab", "m1", "hi")
		older := hello(3)
		turn := make(chan struct{})
		b.beforeAck.set(func() { <-turn })
		older.send(`{"t":"ack","rid":"a","conv":"c-ab","seq":1,"n":8}`)
		synctest.Wait()
		newer := hello(3)
		close(turn)
		if f := older.wants("bye"); f["code"] != "SUPERSEDED" {
			t.Errorf("bye = %v", f)
		}
		newer.send(`{"t":"sub","rid":"s"}`)
		convs, _ := newer.wants("subbed")["convs"].([]any)
		if len(convs) != 1 || frame(convs[0].(map[string]any)).num("delivered") != 0 {
			t.Errorf("the device lags in %v, want it to lack the event", convs)
		}
		newer.acks("c-ab", 1)
		hello(3)
	})
}

// Another node has the device's newer session, and the bus has lost the word: the
// store knows.
func TestAnAckFindsOutALostTakeover(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.connect("u-ana", "d").says("c-ab", "m1", "hi")
		ben := w.connect("u-ben", "d")
		w.bus.lose.Store(int32(bus.Takeover))
		_, err := w.logic.Hello(w.t.Context(), impart.Hello{Identity: impart.Identity{User: "u-ben"}, Device: "d", Install: "i-d"})
		must(w.t, err)
		ben.wants()
		ben.send(`{"t":"ack","rid":"a","acks":[{"conv":"c-ab","seq":1},{"conv":"c-none","seq":1}]}`)
		frames := ben.take()
		if len(frames) != 2 || frames[0]["code"] != "STALE_INSTALL" || frames[0]["rid"] != "a" || frames[1]["code"] != "SUPERSEDED" {
			w.t.Fatalf("got %v, want a refusal of the whole frame and a bye", frames)
		}
		<-ben.done
	})
}
