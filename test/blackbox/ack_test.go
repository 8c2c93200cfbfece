package blackbox

import (
	"fmt"
	"regexp"
	"testing"
)

func TestAckMovesTheCursor(t *testing.T) {
	w := onShared(t)
	ab, ac := w.conv("ab", "ana", "ben"), w.conv("ac", "ana", "cai")
	ana := w.online("ana", "phone")
	ana.sendMany(ab, "a", 5)
	ana.sendMany(ac, "b", 5)
	one := ana.want("acked", F{"t": "ack", "conv": ab, "seq": 3, "n": 1, "epoch": ana.welcome.Int("epoch")})
	shaped(t, one.Object, ackedShape)
	if one.Str("conv") != ab || one.Int("delivered") != 3 {
		t.Errorf("acked %s", one.Object)
	}
	// The merged cursor can be above what was asked: it never goes back.
	if f := ana.ack(ab, 1); f.Int("delivered") != 3 {
		t.Errorf("acked %s, want 3", f.Object)
	}
	if f := ana.ack(ab, 0); f.Int("delivered") != 3 {
		t.Errorf("acked %s, want 3", f.Object)
	}
	many := ana.want("acked", F{"t": "ack", "n": 2, "acks": []F{{"conv": ab, "seq": 5}, {"conv": ac, "seq": 2}, {"conv": "c-none" + w.ns, "seq": 1}, {"conv": ac, "seq": 6}}})
	shaped(t, many.Object, ackedNShape)
	got := map[string]int64{}
	codes := map[string]string{}
	for _, a := range many.List("acks") {
		if a.Has("code") {
			shaped(t, a, "conv:s+ code:s+")
			codes[a.Str("conv")] = a.Str("code")
			continue
		}
		shaped(t, a, "conv:s+ delivered:i")
		got[a.Str("conv")] = a.Int("delivered")
	}
	if got[ab] != 5 || got[ac] != 2 || codes["c-none"+w.ns] != "NOT_MEMBER" || codes[ac] != "CURSOR_AHEAD" {
		t.Errorf("acked %s, want 5, 2, NOT_MEMBER and CURSOR_AHEAD", many.Object)
	}
}

// One device's cursor is not another's.
func TestCursorsBelongToDevices(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	phone, tablet := w.online("ana", "phone"), w.online("ana", "tablet")
	ben := w.online("ben", "phone") // a device id is scoped by its user
	ben.sendMany(ab, "k", 3)
	phone.ack(ab, 3)
	for _, c := range []*client{tablet, ben} {
		if f := c.ack(ab, 0); f.Int("delivered") != 0 {
			t.Errorf("%s/%s: %s, want 0", c.user, c.device, f.Object)
		}
	}
}

var aheadMessage = regexp.MustCompile(`seq=(\d+).* head=(\d+)`)

func TestAckBeyondHeadIsRefused(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	ana.sendMany(ab, "k", 2)
	f := ana.refuse("CURSOR_AHEAD", F{"t": "ack", "conv": ab, "seq": 3})
	if m := aheadMessage.FindStringSubmatch(f.Str("message")); m == nil || m[1] != "3" || m[2] != "2" {
		t.Errorf("message %q, want seq=3 and head=2 in it", f.Str("message"))
	}
	for _, frame := range []F{
		{"t": "ack", "conv": ab, "seq": -1}, {"t": "read", "conv": ab, "seq": 3}, {"t": "read", "conv": ab, "seq": -1},
		{"t": "sync", "conv": ab, "after": 3}, {"t": "sync", "conv": ab, "after": -1}, {"t": "sync", "conv": ab, "before": 4},
		{"t": "recall", "conv": ab, "seq": 3, "cmid": "r"}, {"t": "ack", "conv": ab, "seq": 1<<53 - 1},
	} {
		ana.refuse("CURSOR_AHEAD", frame)
	}
	if f := ana.ack(ab, 0); f.Int("delivered") != 0 {
		t.Errorf("acked %s: a refused ack moved the cursor", f.Object)
	}
}

// Numbers beyond what the protocol has are refused, not wrapped around.
func TestOverflowingSeqsMoveNothing(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	ana.sendMany(ab, "k", 2)
	for i, seq := range []string{"9007199254740992", "9223372036854775807", "9223372036854775808", "18446744073709551617", "-9223372036854775809", "1e400", "1e1"} {
		for _, t1 := range []string{"ack", "read"} {
			rid := fmt.Sprint(t1, i)
			if err := ana.Text(fmt.Sprintf(`{"t":%q,"rid":%q,"conv":%q,"seq":%s}`, t1, rid, ab, seq)); err != nil {
				t.Fatal(err)
			}
			if f := ana.reply(rid); f.Str("code") != "BAD_FRAME" && f.Str("code") != "CURSOR_AHEAD" {
				t.Errorf("%s of %s: %s, want a refusal", t1, seq, f.Object)
			}
		}
	}
	if f := ana.ack(ab, 0); f.Int("delivered") != 0 {
		t.Errorf("acked %s, want 0", f.Object)
	}
	if f := ana.want("readed", F{"t": "read", "conv": ab, "seq": 0}); f.Int("read") != 0 {
		t.Errorf("readed %s, want 0", f.Object)
	}
}

func TestAckOfAnotherEpochMovesNothing(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	ana.sendMany(ab, "k", 2)
	epoch := ana.welcome.Int("epoch")
	for _, frame := range []F{
		{"t": "ack", "conv": ab, "seq": 2}, {"t": "ack", "acks": []F{{"conv": ab, "seq": 2}}}, {"t": "read", "conv": ab, "seq": 2},
		{"t": "sync", "conv": ab, "after": 0}, {"t": "recall", "conv": ab, "seq": 1, "cmid": "r"},
	} {
		frame["epoch"] = epoch + 1
		if f := ana.refuse("EPOCH_CHANGED", frame); f.Int("epoch") != epoch {
			t.Errorf("%v: %s, want epoch %d", frame["t"], f.Object, epoch)
		}
	}
	if f := ana.ack(ab, 0); f.Int("delivered") != 0 {
		t.Errorf("acked %s, want 0", f.Object)
	}
}

// Delivered moves only by an ack: pushes, syncs, pulls and reads leave it where it is.
func TestOnlyAcksMoveDelivered(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ana.sendMany(ab, "k", 3)
	ben.event(ab, 3)
	ben.log(ab, 0)
	ben.want("pulled", F{"t": "pull"})
	ben.want("readed", F{"t": "read", "conv": ab, "seq": 3})
	ben.want("whos", F{"t": "who", "conv": ab, "seq": 1})
	if c := ben.want("convs", F{"t": "convs"}).List("convs")[0]; c.Int("delivered") != 0 {
		t.Errorf("%s, want delivered 0", c)
	}
	if f := ana.ack(ab, 0); f.Int("delivered") != 0 {
		t.Errorf("one's own send moved the cursor: %s", f.Object)
	}
}
