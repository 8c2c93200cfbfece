package sqlstore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// killDir tells the test binary to be the child that is killed.
const killDir = "SQLSTORE_KILL_DIR"

const (
	killCycles  = 12
	killSenders = 16
	killConvs   = 3
)

// killChild appends and acknowledges without end. It says what it tries before
// and what it was told after; whoever reads that kills it.
func killChild(dir string) {
	ctx := context.Background()
	s, err := Open(ctx, dsnIn(dir), Options{})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	var mu sync.Mutex
	say := func(words ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(words...)
	}
	var wg sync.WaitGroup
	for i := range killSenders {
		wg.Go(func() {
			user := benchUser(i)
			for n := 0; ; n++ {
				a := killMessage(user, i%killConvs, fmt.Sprintf("%d-%d", os.Getpid(), n))
				say("try", user, i%killConvs, a.CMID)
				out := s.Append(ctx, []store.Append{a})[0]
				if out.Err != nil {
					say("error", out.Err)
					return
				}
				say("sent", user, i%killConvs, a.CMID, out.Seq)
				ack := s.Advance(ctx, []store.Advance{{User: user, Device: "d", Install: 1, Conv: a.Conv, Seq: out.Seq}})[0]
				if ack.Err != nil {
					say("error", ack.Err)
					return
				}
				say("acked", user, i%killConvs, ack.Delivered)
			}
		})
	}
	wg.Wait()
}

func killMessage(user impart.UserID, conv int, cmid string) store.Append {
	return hashed(store.Append{
		Kind: impart.KindMsg, Sender: user, Conv: benchConv(conv), CMID: impart.CMID(cmid), Type: impart.DefaultType,
		Body: strings.Repeat(cmid, 20), MID: impart.MID(uuid()), At: 1,
	})
}

// promises are what a child was told.
type promises struct {
	tried map[dedupKey]int        // the conversation
	sent  map[dedupKey]impart.Seq // what was answered
	acked map[flowKey]impart.Seq
}

// A process that is killed at any moment has lost nothing that it was told, and
// what it was not told is there once after a resend (D1, D2, D4, D7).
func TestKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	var users []impart.UserID
	for i := range killSenders {
		users = append(users, benchUser(i))
		_, err := w.Hello(t.Context(), store.Hello{User: benchUser(i), Device: "d", Install: "x"})
		w.must(err)
	}
	for i := range killConvs {
		w.group(benchConv(i), users...)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	p := &promises{tried: map[dedupKey]int{}, sent: map[dedupKey]impart.Seq{}, acked: map[flowKey]impart.Seq{}}
	unsettled, cycles := 0, killCycles
	if testing.Short() {
		cycles = 3
	}
	for range cycles {
		w.must(w.Close())
		runAndKill(t, w.dir, 1+random.IntN(400), p)
		w.open(Options{})
		unsettled += w.keeps(p)
	}
	if unsettled == 0 {
		t.Error("no kill came between a try and its answer: the test has shown nothing")
	}
	t.Logf("%d messages, %d of them had no answer when the process died", len(p.tried), unsettled)
}

// runAndKill kills a child after it has said so many lines.
func runAndKill(t *testing.T, dir string, lines int, p *promises) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), killDir+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	for n := 0; ; n++ {
		if n == lines {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		line, err := said.ReadString('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		p.hear(t, strings.Fields(line))
		if n == 0 {
			if s, err := Open(t.Context(), dsnIn(dir), Options{}); err == nil {
				t.Fatalf("opened while another process serves it: %v", s.Close())
			} else if !strings.Contains(err.Error(), "in use") {
				t.Fatalf("opened while another process serves it: %v", err)
			}
		}
	}
	if err := child.Wait(); err == nil {
		t.Fatal("the child ended by itself")
	}
}

func (p *promises) hear(t *testing.T, words []string) {
	t.Helper()
	if words[0] == "error" {
		t.Fatalf("the child says %v", words)
	}
	conv, err := strconv.Atoi(words[2])
	if err != nil {
		t.Fatalf("the child says %v", words)
	}
	user := impart.UserID(words[1])
	number := func(i int) impart.Seq {
		n, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			t.Fatalf("the child says %v", words)
		}
		return impart.Seq(n)
	}
	switch words[0] {
	case "try":
		p.tried[dedupKey{user, impart.CMID(words[3])}] = conv
	case "sent":
		p.sent[dedupKey{user, impart.CMID(words[3])}] = number(4)
	case "acked":
		p.acked[flowKey{memberKey{benchConv(conv), user}, "d"}] = number(3)
	}
}

// keeps checks the promises, resends what was not answered, and says how much
// that was.
func (w *world) keeps(p *promises) (unsettled int) {
	w.t.Helper()
	for k, conv := range p.tried {
		out := w.Append(w.t.Context(), []store.Append{killMessage(k.user, conv, string(k.cmid))})[0]
		if out.Err != nil {
			w.t.Fatalf("resending %v: %v", k, out.Err)
		}
		switch seq, told := p.sent[k]; {
		case !told:
			unsettled++
			p.sent[k] = out.Seq
		case !out.Dup || out.Seq != seq:
			w.t.Fatalf("%v was answered with seq %d; after the kill a resend got %+v", k, seq, out)
		}
	}
	at := map[dedupKey]impart.Seq{}
	for i := range killConvs {
		for _, ev := range w.whole(benchUser(0), benchConv(i)) {
			at[dedupKey{ev.Sender, ev.CMID}] = ev.Seq
			if ev.Body != strings.Repeat(string(ev.CMID), 20) {
				w.t.Fatalf("%s at %d has the body %q", ev.CMID, ev.Seq, ev.Body)
			}
		}
	}
	if len(at) != len(p.tried) {
		w.t.Fatalf("%d messages are stored and %d were tried", len(at), len(p.tried))
	}
	for k, seq := range p.sent {
		if at[k] != seq {
			w.t.Fatalf("%v was answered with seq %d and stands at %d", k, seq, at[k])
		}
	}
	for k, seq := range p.acked {
		session := impart.Session{User: k.user, Device: k.device, Install: 1}
		lags, err := w.Lags(w.t.Context(), []impart.LagQuery{{Session: session, Conv: k.conv}})
		w.must(err)
		if lags[0].Delivered < seq || lags[0].Delivered > lags[0].Head {
			w.t.Fatalf("%v acknowledged %d; after the kill it stands at %+v", k, seq, lags[0])
		}
	}
	return unsettled
}
