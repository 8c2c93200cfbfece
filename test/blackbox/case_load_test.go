package blackbox

// Cases of load and poison, and of read state. Case 42 needs many gateways.

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// A group with one reader that never reads: memory is bounded and nobody else is affected.
func TestCase38_StuckReaderInAGroup(t *testing.T) {
	w := onOwn(t, "IM_SWEEP_MS=500")
	members := []string{"ana", "stuck"}
	for i := range 100 {
		members = append(members, fmt.Sprint("m", i))
	}
	conv := w.conv("group", members...)
	ana := w.online("ana", "phone")
	readers := []*rawclient.Device{}
	for _, m := range members[2:10] {
		readers = append(readers, w.device(m, "phone"))
		readers[len(readers)-1].Start()
	}
	stuck, err := rawclient.DialSocket(w.srv.Addr(), nil, 2048)
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	for _, frame := range []F{w.hello("stuck", "phone", nil), {"t": "sub"}} {
		if err := stuck.Text(mustJSON(t, frame)); err != nil {
			t.Fatal(err)
		}
	}
	base := w.srv.RSS(t)
	body := strings.Repeat("x", 30_000)
	const n = 200
	began := time.Now()
	for i := range n {
		ana.post(F{"t": "send", "conv": conv, "cmid": fmt.Sprint("k", i), "body": body})
	}
	caughtUp(t, bulk, conv, n, readers...)
	t.Logf("%d messages to %d readers in %v", n, len(readers), time.Since(began))
	if grown := w.srv.PeakRSS(t) - base; grown > 200<<20 {
		t.Errorf("memory rose by %d MiB", grown>>20)
	}
	w.std(conv, "m99", readers...)
	back := w.online("stuck", "phone")
	if events, head := back.log(conv, 0); head != n || len(events) != n {
		t.Errorf("the stuck one finds %d of %d events when it is back", len(events), n)
	}
}

// A body of limit−1, limit, limit+1 and 16 MiB: a final error for that cmid only, and the rest of the outbox goes on.
func TestCase39_PoisonInTheOutbox(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.device("ana", "phone")
	ben := w.device("ben", "phone")
	ana.Start()
	ben.Start()
	ana.Post(ab, "first")
	ana.Post(ab, strings.Repeat("a", 65535))
	ana.Post(ab, strings.Repeat("b", 65536))
	poison := ana.Post(ab, strings.Repeat("c", 65537))
	ana.Post(ab, "last")
	settled(t, patience, ana)
	if failed := ana.Failed(); len(failed) != 1 || failed[poison] != "TOO_LARGE" {
		t.Errorf("refused for good: %v, want only %s", failed, poison)
	}
	caughtUp(t, patience, ab, 4, ana, ben)
	got := bodies(ben.Log(ab))
	if len(got) != 4 || got[0] != "first" || len(got[1]) != 65535 || len(got[2]) != 65536 || got[3] != "last" {
		t.Errorf("the other device holds %d messages, the last %q", len(got), got[len(got)-1])
	}
	if n := ana.Dials(); n != 1 {
		t.Errorf("the connection was lost %d times", n-1)
	}
	c := w.online("ana", "other")
	if err := c.Text(mustJSON(t, F{"t": "send", "conv": ab, "cmid": "huge", "body": strings.Repeat("d", 16<<20)})); err != nil {
		t.Logf("the server closed while 16 MiB were written: %v", err)
	}
	if code := c.ended(patience); code != 1009 {
		t.Errorf("16 MiB closed with %d, want 1009", code)
	}
	if _, head := w.login("ana", "other", nil).log(ab, 0); head != 4 {
		t.Errorf("head %d, want 4", head)
	}
}

// A device far behind that acks slowly: steady progress, and the connection is not killed for it.
func TestCase40_SlowAcks(t *testing.T) {
	w := onOwn(t, "IM_SWEEP_MS=500", "IM_RETRY_MS=100,200,300,400")
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	const n = 1500
	ana.sendMany(ab, "k", n)
	ben := w.online("ben", "phone")
	cursor, pages := int64(0), 0
	for more := true; more; pages++ {
		f := ben.pull(100)
		page := f.List("convs")[0]
		if through := page.Int("through"); through <= cursor || page.List("events")[0].Int("seq") != cursor+1 {
			t.Fatalf("page %d begins at %d and goes through %d, the cursor is %d", pages, page.List("events")[0].Int("seq"), through, cursor)
		}
		cursor = page.Int("through")
		ana.send(ab, fmt.Sprint("live", pages), "meanwhile")
		<-time.After(150 * time.Millisecond)
		ben.ackPage(f)
		more = f.Bool("more")
	}
	if cursor < n {
		t.Errorf("%d pages reached %d of %d", pages, cursor, n)
	}
	ben.alive()
}

// Many connections come and go: memory, threads and file descriptors return to their base.
func TestCase41_ComeAndGo(t *testing.T) {
	w := onOwn(t)
	w.conv("ab", "ana", "ben")
	cycle := func(n int) {
		for i := range n {
			c := w.online(fmt.Sprint("u", i%50), fmt.Sprint("d", i%7))
			if i%2 == 0 {
				c.Close()
			} else {
				c.CloseNormally()
			}
		}
	}
	goroutines := func() float64 {
		v, ok := w.srv.Metric(t, "go_goroutines", "")
		if !ok {
			t.Fatal("/metrics has no go_goroutines")
		}
		return v
	}
	cycle(100)
	base, files, count := w.srv.RSS(t), w.srv.OpenFiles(t), goroutines()
	cycle(600)
	deadline := time.Now().Add(patience)
	for goroutines() > count+20 && time.Now().Before(deadline) {
		<-time.After(100 * time.Millisecond)
	}
	if now := goroutines(); now > count+20 {
		t.Errorf("%v goroutines, %v before", now, count)
	}
	if now := w.srv.OpenFiles(t); now > files+20 {
		t.Errorf("%d open files, %d before", now, files)
	}
	if now := w.srv.RSS(t); now > base+64<<20 {
		t.Errorf("memory %d MiB, %d before", now>>20, base>>20)
	}
}

// Unread never counts one's own, never goes below zero, and is the same on all devices whatever the order of reads.
func TestCase44_UnreadConverges(t *testing.T) {
	w := onOwn(t)
	abc := w.conv("abc", "ana", "ben", "cai")
	phone, tablet := w.online("ana", "phone"), w.online("ana", "tablet")
	others := []*client{w.online("ben", "phone"), w.online("cai", "phone")}
	rnd := rand.New(rand.NewPCG(4, 4))
	var senders []string // by seq − 1
	recalled := map[int]bool{}
	read := int64(0)
	for step := range 150 {
		head := int64(len(senders))
		switch k := rnd.IntN(10); {
		case k < 5:
			c := append(others, phone)[rnd.IntN(3)]
			c.send(abc, fmt.Sprint("k", step), "x")
			senders = append(senders, c.user)
		case k < 6 && head > 0:
			seq := rnd.Int64N(head) + 1
			for _, c := range others {
				if senders[seq-1] == c.user && !recalled[int(seq)] {
					c.want("sent", recall(abc, seq, fmt.Sprint("r", step)))
					recalled[int(seq)] = true
					senders = append(senders, "")
				}
			}
		case head > 0:
			seq := rnd.Int64N(head + 1)
			read = max(read, seq)
			c := []*client{phone, tablet}[rnd.IntN(2)]
			if f := c.want("readed", F{"t": "read", "conv": abc, "seq": seq}); f.Int("read") != read {
				t.Fatalf("step %d: %s, want %d", step, f.Object, read)
			}
		}
		want := int64(0)
		for i, user := range senders {
			if int64(i+1) > read && user != "" && user != phone.user && !recalled[i+1] {
				want++
			}
		}
		for _, c := range []*client{phone, tablet} {
			if got := c.convsOf()[abc]; got.Int("unread") != want || got.Int("read") != read {
				t.Fatalf("step %d: %s says %s, want unread %d, read %d", step, c.device, got, want, read)
			}
		}
	}
}
