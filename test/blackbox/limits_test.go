package blackbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

func TestBodyLimit(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	for i, body := range []string{"", strings.Repeat("x", 65535), strings.Repeat("x", 65536), strings.Repeat("€", 21845) + "x", strings.Repeat("\x01", 65536)} {
		ana.send(ab, fmt.Sprint("k", i), body)
		if got := ben.event(ab, int64(i+1)).Str("body"); got != body {
			t.Errorf("a body of %d bytes came back with %d", len(body), len(got))
		}
	}
	// The limit counts bytes of the text: neither its characters nor the bytes of its escapes.
	for _, body := range []string{strings.Repeat("x", 65537), strings.Repeat("€", 21846), strings.Repeat("x", 200_000)} {
		ana.refuse("TOO_LARGE", F{"t": "send", "conv": ab, "cmid": "big", "body": body})
	}
	if f := ana.send(ab, "big", "now small"); f.Bool("dup") {
		t.Errorf("a refused send was remembered: %s", f.Object)
	}
}

func TestExtLimit(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	ext := func(n int) F { return F{"a": strings.Repeat("x", n-len(`{"a":""}`))} }
	ana.want("sent", F{"t": "send", "conv": ab, "cmid": "k1", "body": "", "ext": ext(4096)})
	ana.refuse("TOO_LARGE", F{"t": "send", "conv": ab, "cmid": "k2", "body": "", "ext": ext(4097)})
	ana.refuse("TOO_LARGE", F{"t": "send", "conv": ab, "cmid": "k3", "body": "", "ext": ext(500_000)})
}

// A frame up to limits.frame is read, one above it up to 4 MiB is answered, a larger one ends the connection with 1009.
func TestFrameLimits(t *testing.T) {
	w := onShared(t)
	c := w.online("ana", "phone")
	ping := func(size int) rawclient.Frame {
		mark := c.Mark()
		head := fmt.Sprintf(`{"t":"ping","rid":"p%d","pad":"`, size)
		if err := c.Text(head + strings.Repeat("x", size-len(head)-2) + `"}`); err != nil {
			t.Fatal(err)
		}
		return c.await(fmt.Sprintf("an answer to %d bytes", size), mark, func(rawclient.Frame) bool { return true })
	}
	for _, size := range []int{1<<20 - 1, 1 << 20} {
		if f := ping(size); f.T() != "pong" {
			t.Errorf("a frame of %d bytes: %s, want pong", size, f.Object)
		}
	}
	for _, size := range []int{1<<20 + 1, 2 << 20, 4 << 20} {
		f := ping(size)
		if f.Str("code") != "TOO_LARGE" {
			t.Errorf("a frame of %d bytes: %s, want TOO_LARGE", size, f.Object)
			continue
		}
		checkError(t, f.Object)
		c.alive()
	}
	if err := c.Text(strings.Repeat(" ", 4<<20+1)); err != nil {
		t.Logf("the server closed while the frame was written: %v", err)
	}
	if code := c.ended(patience); code != 1009 {
		t.Errorf("a frame of 4 MiB and a byte closed with %d, want 1009", code)
	}
}

func TestAtMostAThousandAcks(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	c := w.online("ana", "phone")
	c.send(ab, "k1", "x")
	acks := []F{{"conv": ab, "seq": 1}}
	for i := range 999 {
		acks = append(acks, F{"conv": fmt.Sprint("c-none-", i, w.ns), "seq": 1})
	}
	f := c.want("acked", F{"t": "ack", "acks": acks})
	if got := f.List("acks"); len(got) != 1000 || got[0].Str("conv") != ab || got[0].Int("delivered") != 1 {
		t.Errorf("1,000 acks got %d answers, the first %v", len(got), got[:min(1, len(got))])
	}
	c.refuse("TOO_LARGE", F{"t": "ack", "acks": append(acks, F{"conv": ab, "seq": 1})})
}

func TestPageLimitsOfFrames(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	c := w.online("ana", "phone")
	c.sendMany(ab, "k", 3)
	for _, frame := range []F{
		{"t": "sync", "conv": ab, "after": 0}, {"t": "sync", "conv": ab, "before": 3}, {"t": "pull"}, {"t": "convs"},
	} {
		for _, limit := range []any{0, 1001, -1, 1 << 40, 1.5, "10"} {
			frame["limit"] = limit
			if limit == 1001 && (frame["t"] == "convs") {
				continue // counts conversations, for which the protocol names no limit
			}
			c.refuse("BAD_FRAME", frame)
		}
		for _, limit := range []int{1, 1000} {
			frame["limit"] = limit
			if f := c.ask(frame); f.T() == "error" {
				t.Errorf("%v: %s", frame, f.Object)
			}
		}
	}
}

// A page holds 100 events unless told otherwise.
func TestDefaultPageIsAHundred(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.login("ben", "phone", nil)
	ana.sendMany(ab, "k", 101)
	for name, events := range map[string][]rawclient.Object{
		"sync":    ben.want("synced", F{"t": "sync", "conv": ab, "after": 0}).List("events"),
		"history": ben.want("synced", F{"t": "sync", "conv": ab, "before": 102}).List("events"),
		"pull":    ben.want("pulled", F{"t": "pull"}).List("convs")[0].List("events"),
	} {
		if len(events) != 100 {
			t.Errorf("%s gave %d events, want 100", name, len(events))
		}
	}
}

// No reply is over 1 MiB, whatever was asked for: the page ends early and says more, and paging on gives everything.
// Control characters grow sixfold on the wire, so that counting the bytes of the text is not enough.
func TestNoReplyIsOverAMebibyte(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.login("ben", "phone", nil)
	const n = 24
	for i := range n {
		ana.send(ab, fmt.Sprint("k", i), strings.Repeat([]string{"x", "\x01", "\\", "\u2028x"}[i%4], []int{65536, 65536, 65536, 16384}[i%4]))
	}
	events, after := 0, int64(0)
	for more := true; more; {
		f := ben.want("synced", F{"t": "sync", "conv": ab, "after": after, "limit": 1000})
		if len(f.Raw) > 1<<20 {
			t.Errorf("synced has %d bytes", len(f.Raw))
		}
		events, after, more = events+len(f.List("events")), f.Int("through"), f.Bool("more")
	}
	if events != n || after != n {
		t.Errorf("sync gave %d events through %d, want %d", events, after, n)
	}
	for before, seen := int64(n+1), 0; before > 1; {
		f := ben.want("synced", F{"t": "sync", "conv": ab, "before": before, "limit": 1000})
		list := f.List("events")
		if len(f.Raw) > 1<<20 || len(list) == 0 {
			t.Fatalf("history has %d bytes with %d events", len(f.Raw), len(list))
		}
		before, seen = list[len(list)-1].Int("seq"), seen+len(list)
		if f.Bool("more") != (before > 1) {
			t.Errorf("history down to %d says more %v", before, f.Bool("more"))
		}
	}
	pulled := 0
	for more := true; more; {
		f := ben.want("pulled", F{"t": "pull", "limit": 1000})
		if len(f.Raw) > 1<<20 {
			t.Errorf("pulled has %d bytes", len(f.Raw))
		}
		for _, page := range f.List("convs") {
			pulled += len(page.List("events"))
			ben.ack(ab, page.Int("through"))
		}
		more = f.Bool("more")
	}
	if pulled != n {
		t.Errorf("pull gave %d events, want %d", pulled, n)
	}
	if f := ben.want("convs", F{"t": "convs"}); len(f.Raw) > 1<<20 {
		t.Errorf("convs has %d bytes", len(f.Raw))
	}
}

// Past the in-flight limit the socket is not read; nothing is refused for it.
func TestInflightLimitRefusesNothing(t *testing.T) {
	for name, env := range map[string][]string{"default": nil, "eight": {"IM_MAX_INFLIGHT=8"}} {
		t.Run(name, func(t *testing.T) {
			w := onOwn(t, env...)
			ab := w.conv("ab", "ana", "ben")
			ana := w.online("ana", "phone")
			if want := map[string]int64{"default": 1024, "eight": 8}[name]; ana.welcome.Obj("limits").Int("inflight") != want {
				t.Errorf("limits %s, want inflight %d", ana.welcome.Obj("limits"), want)
			}
			if last := ana.sendMany(ab, "k", 2000); last != 2000 {
				t.Errorf("last seq %d, want 2000", last)
			}
			events, _ := ana.log(ab, 0)
			for i, ev := range events {
				if ev.CMID != fmt.Sprint("k", i+1) {
					t.Fatalf("seq %d is %s: the order of pipelined sends is lost", ev.Seq, ev.CMID)
				}
			}
		})
	}
}
