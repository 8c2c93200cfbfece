package gateway

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
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
