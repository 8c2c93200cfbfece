package crowd

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	im "github.com/impart-im/impart"
	"github.com/impart-im/impart/test/blackbox/impart"
)

// many is how many applications there are.
func many() int {
	if n, err := strconv.Atoi(os.Getenv("IMPART_CROWD")); err == nil {
		return n
	}
	return 120
}

// few of them write, each so many messages at once.
const few, writes = 12, 10

// maxReads bounds what one who comes back costs the database: it takes four transactions to greet it and to give it what
// it lacks, and some for what goes on meanwhile.
const maxReads = 8

// A gateway with all of a crowd is killed, and the other one has room for half of them: they come back spread over time,
// those that are turned away when they were told to, and to fetch what they lack costs each a few reads. Those that write
// faster than they may wait as they are told. The second time, so soon after, they take longer.
func TestCase42_ManyReturnFromADeadGateway(t *testing.T) {
	n := many()
	d := impart.Fresh(t)
	w := newWorld(t, d, "IM_RATE_SEND=5", "IM_RATE_SEND_BURST=5")
	w.gateway(d)
	w.gateway(d, fmt.Sprint("IM_MAX_CONNS=", n/2))
	users := []im.UserID{"u-writer"}
	for i := range n {
		users = append(users, im.UserID(fmt.Sprint("u-", i)))
	}
	w.conv("c-all", users...)
	w.conv("c-few", users[:1+few]...)
	w.balance(0)
	var apps []*app
	for _, user := range users {
		apps = append(apps, w.app(user))
	}
	writer, crowd := apps[0], apps[1:]
	writer.send("c-all", 5)
	for _, a := range apps {
		a.online()
		a.has("c-all", 5)
	}

	before, killed := w.reads(), time.Now()
	w.balance(1)
	w.gateways[0].Kill()
	for _, a := range crowd[:few] {
		a.send("c-few", writes)
	}
	writer.send("c-all", 5)
	w.turnedAway(crowd, killed)
	w.gateways[0].MustRestart(t)
	w.balance(0) // as the other one has no room
	for _, a := range apps {
		a.has("c-all", 10)
	}
	for _, a := range crowd[:few] {
		a.has("c-few", writes*few)
	}
	if each := (w.reads() - before) / float64(n); each > maxReads {
		t.Errorf("%.1f reads for each of %d that came back, want %d at most", each, n, maxReads)
	}
	w.spread(crowd, killed, 500*time.Millisecond)
	w.obeyed(crowd, killed)
	w.refusals()

	killed = time.Now()
	w.balance(0)
	w.gateways[1].Kill()
	writer.send("c-all", 1)
	for _, a := range apps {
		a.has("c-all", 11)
	}
	w.spread(crowd, killed, time.Second)
}

// turnedAway waits until somebody of the crowd has found no room.
func (w *world) turnedAway(crowd []*app, since time.Time) {
	w.Helper()
	for late := time.After(patience); ; {
		for _, a := range crowd {
			waits, _ := a.since(since)
			if slices.ContainsFunc(waits, noRoom) {
				return
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-late:
			w.Fatal("nobody was turned away: the other gateway had room for all")
		}
	}
}

func noRoom(w wait) bool { return w.why != nil && strings.HasSuffix(w.why.Error(), "got 503") }

// roomAfter is what a gateway without room tells those it turns away.
const roomAfter = 5 * time.Second

// spread demands that the crowd has drawn its first attempts after a moment from all of a time, and from no more.
func (w *world) spread(crowd []*app, since time.Time, over time.Duration) {
	w.Helper()
	var drawn []time.Duration
	for _, a := range crowd {
		if waits, _ := a.since(since); len(waits) > 0 {
			drawn = append(drawn, waits[0].until.Sub(waits[0].began))
		}
	}
	if len(drawn) < 20 {
		w.Fatalf("%d of %d have lost their gateway", len(drawn), len(crowd))
	}
	slices.Sort(drawn)
	first, last := drawn[len(drawn)/10], drawn[len(drawn)*9/10]
	w.Logf("the middle four fifths of %d came back within %v to %v", len(drawn), first, last)
	if last-first < over/2 || last > over {
		w.Errorf("that is not spread over %v", over)
	}
}

// obeyed demands that nobody has dialed before the time that was told to the application, and that whoever was turned
// away was told to wait at least as long as the gateway says.
func (w *world) obeyed(crowd []*app, since time.Time) {
	w.Helper()
	away := 0
	for _, a := range crowd {
		waits, dials := a.since(since)
		for _, wait := range waits {
			if noRoom(wait) {
				away++
				if told := wait.until.Sub(wait.began); told < roomAfter-200*time.Millisecond {
					w.Errorf("%s was turned away and waits %v, want %v at least", a.user, told, roomAfter)
				}
			}
			next := slices.IndexFunc(dials, func(d time.Time) bool { return d.After(wait.began) })
			if next >= 0 && dials[next].Before(wait.until) {
				w.Errorf("%s dialed %v before its time", a.user, wait.until.Sub(dials[next]))
			}
		}
	}
	w.Logf("%d were turned away", away)
}

// refusals demands that those who wrote too fast were told so, and hardly more than once for each message.
func (w *world) refusals() {
	w.Helper()
	n := 0.0
	for _, g := range w.gateways {
		sum, _ := g.Metric(w, "im_error_total", `"RATE_LIMITED"`)
		n += sum
	}
	w.Logf("%v of %d sends were refused as too fast", n, few*writes)
	if n == 0 || n > few*writes {
		w.Errorf("want some, and %d at most", few*writes)
	}
}
