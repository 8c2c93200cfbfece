package blackbox

import (
	"fmt"
	"sync"
	"testing"
)

func TestSubShowsWhereTheDeviceLags(t *testing.T) {
	w := onShared(t)
	ab, ac, empty := w.conv("ab", "ana", "ben"), w.conv("ac", "ana", "cai"), w.conv("empty", "ana", "ben")
	w.online("ben", "phone").sendMany(ab, "k", 3)
	w.online("cai", "phone").sendMany(ac, "k", 2)

	ana := w.login("ana", "phone", nil)
	f := ana.want("subbed", F{"t": "sub"})
	shaped(t, f.Object, subbedShape)
	heads := map[string]int64{}
	for _, c := range f.List("convs") {
		shaped(t, c, laggingShape)
		heads[c.Str("conv")] = c.Int("head")
		if c.Int("delivered") != 0 || c.Int("read") != 0 || c.Int("floor") != 0 {
			t.Errorf("a new install starts with %s", c)
		}
	}
	if len(heads) != 3 || heads[ab] != 3 || heads[ac] != 2 || heads[empty] != 0 || f.Bool("more") {
		t.Errorf("subbed %s, want all three conversations of a new install", f.Object)
	}

	ana.ack(ab, 3)
	ana.ack(ac, 1)
	again := w.login("ana", "phone", nil).want("subbed", F{"t": "sub"})
	list := again.List("convs")
	if len(list) != 1 || list[0].Str("conv") != ac || list[0].Int("delivered") != 1 || list[0].Int("head") != 2 {
		t.Errorf("subbed %s, want only %s, which lags from 1 to 2", again.Object, ac)
	}
}

func TestSubOfAUserWithoutConversations(t *testing.T) {
	w := onShared(t)
	f := w.login("zoe", "phone", nil).want("subbed", F{"t": "sub"})
	shaped(t, f.Object, subbedShape)
	if len(f.List("convs")) != 0 || f.Bool("more") {
		t.Errorf("subbed %s, want nothing", f.Object)
	}
}

func TestNoLiveDeliveryBeforeSub(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.login("ana", "phone", nil), w.online("ben", "phone")
	ben.send(ab, "k1", "too early")
	ana.none("an event before sub", 0, isT("event"))
	f := ana.want("subbed", F{"t": "sub"})
	if l := f.List("convs"); len(l) != 1 || l[0].Int("head") != 1 {
		t.Errorf("subbed %s, want head 1", f.Object)
	}
	ben.send(ab, "k2", "in time")
	if ev := ana.event(ab, 2); ev.Str("body") != "in time" {
		t.Errorf("live event %s", ev)
	}
}

// A user in 1,001 conversations: subbed holds 1,000 of them and says that there is more; convs pages through all.
func TestManyConversations(t *testing.T) {
	w := onOwn(t)
	const n = 1001
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < n; i += 8 {
				path := fmt.Sprintf("/admin/v1/conversations/c-%04d", i)
				if r, err := w.srv.TryRequest("PUT", path, nil, F{"kind": "group", "members": w.users("ana", "ben")}); err != nil || r.Status/100 != 2 {
					t.Errorf("PUT %s: %v %s", path, err, r)
					return
				}
			}
		})
	}
	wg.Wait()
	ana := w.login("ana", "phone", nil)
	f := ana.want("subbed", F{"t": "sub"})
	if len(f.List("convs")) != 1000 || !f.Bool("more") {
		t.Errorf("subbed has %d conversations and more %v, want 1000 and true", len(f.List("convs")), f.Bool("more"))
	}
	seen, after := map[string]bool{}, ""
	for pages := 0; ; pages++ {
		req := F{"t": "convs", "limit": 400}
		if after != "" {
			req["after"] = after
		}
		f := ana.want("convs", req)
		if len(f.Raw) > 1<<20 {
			t.Errorf("a reply of %d bytes", len(f.Raw))
		}
		for _, c := range f.List("convs") {
			if id := c.Str("conv"); seen[id] || id <= after {
				t.Fatalf("conversation %q comes after %q (seen before: %v)", id, after, seen[id])
			}
			after = c.Str("conv")
			seen[after] = true
		}
		if !f.Bool("more") {
			break
		}
		if pages > n {
			t.Fatal("convs never ends")
		}
	}
	if len(seen) != n {
		t.Errorf("convs gave %d conversations, want %d", len(seen), n)
	}
}
