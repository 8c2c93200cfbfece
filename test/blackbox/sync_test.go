package blackbox

import (
	"slices"
	"testing"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

func TestSyncForwards(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.login("ben", "phone", nil)
	ana.sendMany(ab, "k", 7)
	steps := []struct {
		after, limit, through int64
		seqs                  []int64
		more                  bool
	}{
		{0, 3, 3, []int64{1, 2, 3}, true}, {3, 3, 6, []int64{4, 5, 6}, true}, {6, 3, 7, []int64{7}, false},
		{7, 3, 7, []int64{}, false}, {0, 7, 7, []int64{1, 2, 3, 4, 5, 6, 7}, false}, {5, 1, 6, []int64{6}, true},
	}
	for _, s := range steps {
		f := ben.want("synced", F{"t": "sync", "conv": ab, "after": s.after, "limit": s.limit, "epoch": ben.welcome.Int("epoch")})
		shaped(t, f.Object, syncedShape)
		if !slices.Equal(rawclient.Seqs(f.List("events")), s.seqs) || f.Int("through") != s.through || f.Bool("more") != s.more || f.Int("head") != 7 || f.Int("floor") != 0 {
			t.Errorf("after %d limit %d: %s, want %v through %d more %v", s.after, s.limit, f.Object, s.seqs, s.through, s.more)
		}
	}
	for _, ev := range ben.want("synced", F{"t": "sync", "conv": ab, "after": 0}).List("events") {
		shaped(t, ev, msgShape)
	}
}

func TestSyncBackwards(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.login("ben", "phone", nil)
	ana.sendMany(ab, "k", 7)
	for _, s := range []struct {
		before, limit int64
		seqs          []int64
		more          bool
	}{
		{8, 3, []int64{7, 6, 5}, true}, {5, 4, []int64{4, 3, 2, 1}, false}, {7, 1, []int64{6}, true}, {2, 5, []int64{1}, false}, {1, 5, []int64{}, false},
	} {
		f := ben.want("synced", F{"t": "sync", "conv": ab, "before": s.before, "limit": s.limit})
		shaped(t, f.Object, historyShape)
		if !slices.Equal(rawclient.Seqs(f.List("events")), s.seqs) || f.Bool("more") != s.more || f.Int("head") != 7 {
			t.Errorf("before %d limit %d: %s, want %v more %v", s.before, s.limit, f.Object, s.seqs, s.more)
		}
	}
	ben.refuse("CURSOR_AHEAD", F{"t": "sync", "conv": ab, "before": 9}) // head + 1 at most
}

func TestSyncTakesEitherAfterOrBefore(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	ana.sendMany(ab, "k", 2)
	ana.refuse("BAD_FRAME", F{"t": "sync", "conv": ab})
	ana.refuse("BAD_FRAME", F{"t": "sync", "conv": ab, "after": 0, "before": 2})
}

func TestSyncOfAnEmptyConversation(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.login("ana", "phone", nil)
	f := ana.want("synced", F{"t": "sync", "conv": ab, "after": 0})
	shaped(t, f.Object, syncedShape)
	if f.Int("head") != 0 || f.Int("through") != 0 || f.Bool("more") || len(f.List("events")) != 0 {
		t.Errorf("synced %s, want nothing", f.Object)
	}
	if f := ana.want("synced", F{"t": "sync", "conv": ab, "before": 1}); len(f.List("events")) != 0 {
		t.Errorf("synced %s, want nothing", f.Object)
	}
}

func TestSyncNeedsAMembership(t *testing.T) {
	w := onShared(t)
	bc := w.conv("bc", "ben", "cai")
	ana := w.login("ana", "phone", nil)
	ana.refuse("NOT_MEMBER", F{"t": "sync", "conv": bc, "after": 0})
	ana.refuse("NOT_MEMBER", F{"t": "sync", "conv": bc, "before": 1})
	ana.refuse("NOT_MEMBER", F{"t": "sync", "conv": "c-none" + w.ns, "after": 0})
}

// after_mid is the mid the client holds at `after`; when the server holds another there, the histories differ.
func TestSyncComparesAfterMid(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	first, second := ana.send(ab, "k1", "x"), ana.send(ab, "k2", "y")
	f := ana.want("synced", F{"t": "sync", "conv": ab, "after": 1, "after_mid": first.Str("mid")})
	if !slices.Equal(rawclient.Seqs(f.List("events")), []int64{2}) {
		t.Errorf("synced %s, want seq 2", f.Object)
	}
	for _, mid := range []string{second.Str("mid"), "another", first.Str("mid") + " "} {
		f := ana.refuse("EPOCH_CHANGED", F{"t": "sync", "conv": ab, "after": 1, "after_mid": mid})
		if f.Int("epoch") != ana.welcome.Int("epoch") {
			t.Errorf("error %s, want the current epoch", f.Object)
		}
	}
}
