package blackbox

import (
	"testing"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// convsOf gives all the client's conversations by id.
func (c *client) convsOf() map[string]rawclient.Object {
	c.t.Helper()
	f := c.want("convs", F{"t": "convs"})
	shaped(c.t, f.Object, convsShape)
	byID := map[string]rawclient.Object{}
	for _, o := range f.List("convs") {
		shaped(c.t, o, convShape)
		byID[o.Str("conv")] = o
	}
	return byID
}

func TestConvs(t *testing.T) {
	w := onShared(t)
	ab := w.convWith("ab", F{"kind": "direct", "members": w.users("ana", "ben")})
	abc := w.conv("abc", "ana", "ben", "cai")
	empty := w.conv("empty", "ana", "cai")
	w.conv("bc", "ben", "cai")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ben.sendMany(ab, "k", 3)
	ana.send(ab, "mine", "my own")
	ben.send(abc, "k9", "to all")
	ana.ack(ab, 2)
	ana.want("readed", F{"t": "read", "conv": ab, "seq": 1})

	got := ana.convsOf()
	if len(got) != 3 {
		t.Fatalf("convs %v, want three", got)
	}
	c := got[ab]
	if c.Str("kind") != "direct" || c.Int("head") != 4 || c.Int("delivered") != 2 || c.Int("read") != 1 || c.Int("unread") != 2 || c.Int("floor") != 0 {
		t.Errorf("%s: want direct, head 4, delivered 2, read 1, unread 2", c)
	}
	shaped(t, c.Obj("last"), msgShape)
	if last := c.Obj("last"); last.Int("seq") != 4 || last.Str("body") != "my own" {
		t.Errorf("last %s, want the newest event", last)
	}
	if c := got[abc]; c.Str("kind") != "group" || c.Int("unread") != 1 {
		t.Errorf("%s: want group with one unread", c)
	}
	if c := got[empty]; c.Int("head") != 0 || c.Int("unread") != 0 || c.Has("last") && c.Obj("last") != nil {
		t.Errorf("%s: want an empty conversation without last", c)
	}
}

func TestConvsPages(t *testing.T) {
	w := onShared(t)
	want := map[string]bool{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		want[w.conv(name, "ana", "ben")] = true
	}
	ana := w.login("ana", "phone", nil)
	after, pages := "", 0
	for more := true; more; pages++ {
		req := F{"t": "convs", "limit": 2}
		if after != "" {
			req["after"] = after
		}
		f := ana.want("convs", req)
		for _, c := range f.List("convs") {
			after = c.Str("conv")
			if !want[after] {
				t.Errorf("%q comes twice or is not mine", after)
			}
			delete(want, after)
		}
		if more = f.Bool("more"); len(f.List("convs")) > 2 || pages > 3 {
			t.Fatalf("page %d: %s", pages, f.Object)
		}
	}
	if len(want) != 0 || pages != 3 {
		t.Errorf("%d pages, not shown: %v", pages, want)
	}
	if f := ana.want("convs", F{"t": "convs", "after": "c-zzz"}); len(f.List("convs")) != 0 || f.Bool("more") {
		t.Errorf("after the last: %s", f.Object)
	}
}

// unread counts messages of others above read that are not recalled: no joins, no recalls, not one's own.
func TestUnreadCountsMessagesOfOthers(t *testing.T) {
	w := onShared(t)
	conv := w.conv("abc", "ana", "ben", "cai")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ben.sendMany(conv, "k", 3)                                              // 1 2 3
	ana.send(conv, "mine", "x")                                             // 4
	w.join(conv, "dan")                                                     // 5
	w.leave(conv, "dan")                                                    // 6
	ben.want("sent", F{"t": "recall", "conv": conv, "seq": 2, "cmid": "r"}) // 7
	if c := ana.convsOf()[conv]; c.Int("unread") != 2 || c.Int("head") != 7 {
		t.Errorf("%s: want head 7 and unread 2", c)
	}
	ana.want("readed", F{"t": "read", "conv": conv, "seq": 1})
	if c := ana.convsOf()[conv]; c.Int("unread") != 1 {
		t.Errorf("%s: want unread 1", c)
	}
	ana.want("readed", F{"t": "read", "conv": conv, "seq": 7})
	if c := ana.convsOf()[conv]; c.Int("unread") != 0 {
		t.Errorf("%s: want unread 0", c)
	}
}

func TestUnreadIsCountedUpToAThousand(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	w.online("ben", "phone").sendMany(ab, "k", 1005)
	ana := w.login("ana", "phone", nil)
	if c := ana.convsOf()[ab]; c.Int("unread") != 1000 || c.Int("head") != 1005 {
		t.Errorf("%s: want unread 1000", c)
	}
	ana.want("readed", F{"t": "read", "conv": ab, "seq": 6})
	if c := ana.convsOf()[ab]; c.Int("unread") != 999 {
		t.Errorf("%s: want unread 999", c)
	}
}

// A recalled message is the newest event's target, and last shows no body of it.
func TestConvsLastShowsNoRecalledBody(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	ana.send(ab, "k1", "secret")
	ana.want("sent", F{"t": "recall", "conv": ab, "seq": 1, "cmid": "r"})
	last := ana.convsOf()[ab].Obj("last")
	shaped(t, last, recallShape)
	if last.Str("kind") != "recall" {
		t.Errorf("last %s, want the recall", last)
	}
}
