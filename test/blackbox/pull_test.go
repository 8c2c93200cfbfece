package blackbox

import (
	"fmt"
	"slices"
	"testing"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// pull asks for one page and demands its shape.
func (c *client) pull(limit int) rawclient.Frame {
	c.t.Helper()
	f := c.want("pulled", F{"t": "pull", "limit": limit})
	shaped(c.t, f.Object, pulledShape)
	events := 0
	for _, page := range f.List("convs") {
		shaped(c.t, page, pageShape)
		events += len(page.List("events"))
	}
	if events > limit {
		c.t.Errorf("a page of %d events, the limit was %d", events, limit)
	}
	if len(f.List("failed")) != 0 {
		c.t.Errorf("pulled %s: a conversation could not be read", f.Object)
	}
	return f
}

// ackPage acknowledges what a page covers.
func (c *client) ackPage(f rawclient.Frame) {
	c.t.Helper()
	acks := []F{}
	for _, page := range f.List("convs") {
		acks = append(acks, F{"conv": page.Str("conv"), "seq": page.Int("through")})
	}
	if len(acks) > 0 {
		c.want("acked", F{"t": "ack", "acks": acks})
	}
}

func TestPullGivesTheSamePageUntilAcknowledged(t *testing.T) {
	w := onShared(t)
	ab, ac := w.conv("ab", "ana", "ben"), w.conv("ac", "ana", "ben")
	ben := w.online("ben", "phone")
	ben.sendMany(ab, "a", 7)
	ben.sendMany(ac, "b", 4)
	ana := w.login("ana", "phone", nil)
	first := ana.pull(5)
	if again := ana.pull(5); !slices.EqualFunc(first.List("convs"), again.List("convs"), samePage) {
		t.Errorf("the second pull gives another page:\n%s\n%s", first.Object, again.Object)
	}
	if !first.Bool("more") {
		t.Errorf("pulled %s, want more", first.Object)
	}
	got := map[string][]int64{}
	for range 20 {
		f := ana.pull(5)
		for _, page := range f.List("convs") {
			got[page.Str("conv")] = append(got[page.Str("conv")], rawclient.Seqs(page.List("events"))...)
		}
		ana.ackPage(f)
		if !f.Bool("more") {
			break
		}
	}
	if !slices.Equal(got[ab], []int64{1, 2, 3, 4, 5, 6, 7}) || !slices.Equal(got[ac], []int64{1, 2, 3, 4}) {
		t.Errorf("pulled %v, want 1..7 and 1..4, each once", got)
	}
	if f := ana.pull(5); len(f.List("convs")) != 0 || f.Bool("more") {
		t.Errorf("pulled %s, want nothing", f.Object)
	}
}

func samePage(a, b rawclient.Object) bool {
	return a.Str("conv") == b.Str("conv") && a.Int("through") == b.Int("through") && string(a["events"]) == string(b["events"])
}

// A part of a page may be acknowledged: the rest comes again.
func TestPullAfterAPartialAck(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	w.online("ben", "phone").sendMany(ab, "k", 6)
	ana := w.login("ana", "phone", nil)
	ana.pull(4)
	ana.ack(ab, 2)
	page := ana.pull(4).List("convs")[0]
	if !slices.Equal(rawclient.Seqs(page.List("events")), []int64{3, 4, 5, 6}) || page.Int("through") != 6 || page.Int("head") != 6 {
		t.Errorf("page %s, want 3..6", page)
	}
}

// A long conversation does not starve short ones.
func TestPullTakesFairTurns(t *testing.T) {
	w := onShared(t)
	long := w.conv("0-long", "ana", "ben")
	ben := w.online("ben", "phone")
	ben.sendMany(long, "k", 400)
	short := []string{}
	for i := range 5 {
		conv := w.conv(fmt.Sprint("short", i), "ana", "ben")
		ben.sendMany(conv, fmt.Sprint("s", i, "."), 3)
		short = append(short, conv)
	}
	ana := w.login("ana", "phone", nil)
	got := map[string]int{}
	pages := 0
	for ; pages < 60; pages++ {
		f := ana.pull(20)
		for _, page := range f.List("convs") {
			got[page.Str("conv")] += len(page.List("events"))
		}
		ana.ackPage(f)
		if pages == 5 { // one turn each: six conversations
			for _, conv := range short {
				if got[conv] != 3 {
					t.Errorf("after six pages %s has %d of 3: the long conversation (%d) starves it", conv, got[conv], got[long])
				}
			}
		}
		if !f.Bool("more") {
			break
		}
	}
	if got[long] != 400 {
		t.Errorf("after %d pages the long conversation has %d of 400", pages, got[long])
	}
}

// A conversation that goes on receiving while the device pulls cannot keep the others waiting either.
func TestPullUnderLiveTraffic(t *testing.T) {
	w := onShared(t)
	busy, calm := w.conv("busy", "ana", "ben"), w.conv("calm", "ana", "ben")
	ben := w.online("ben", "phone")
	ben.sendMany(busy, "b", 20)
	ben.sendMany(calm, "c", 2)
	ana := w.login("ana", "phone", nil)
	sent, calmGot := 20, 0
	for range 8 {
		f := ana.pull(5)
		for _, page := range f.List("convs") {
			if page.Str("conv") == calm {
				calmGot += len(page.List("events"))
			}
		}
		ana.ackPage(f)
		for range 5 {
			sent++
			ben.send(busy, fmt.Sprint("b", sent), "more")
		}
	}
	if calmGot != 2 {
		t.Errorf("after 8 pages the calm conversation gave %d of 2", calmGot)
	}
}

// Events of a pull have the shape of any event, and pull knows nothing of conversations one is not in.
func TestPullShowsOnlyOnesOwn(t *testing.T) {
	w := onShared(t)
	ab, bc := w.conv("ab", "ana", "ben"), w.conv("bc", "ben", "cai")
	ben := w.online("ben", "phone")
	ben.send(ab, "k1", "yes")
	ben.send(bc, "k2", "no")
	pages := w.login("ana", "phone", nil).pull(100).List("convs")
	if len(pages) != 1 || pages[0].Str("conv") != ab {
		t.Fatalf("pulled %v, want only %s", pages, ab)
	}
	shaped(t, pages[0].List("events")[0], msgShape)
}
