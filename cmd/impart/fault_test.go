//go:build fault

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/impart-im/impart/internal/fault"
)

// These stories run the real process with one fault each, and look from outside
// (make test runs them with -tags fault).

// speaker is a connected device of a user.
type speaker struct {
	t    *testing.T
	conn *websocket.Conn
}

// come connects u on one device and starts live delivery.
func (p *serverProcess) come(t *testing.T, user string) *speaker {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(p.url, "http")+"/v1/ws", &websocket.DialOptions{Subprotocols: []string{"impart.v1.json"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	who := &speaker{t, conn}
	who.say(`{"t":"hello","rid":"h","token":"dev:` + user + `","device":"d-` + user + `","install":"i","proto":1}`)
	who.hears("welcome")
	who.say(`{"t":"sub","rid":"s"}`)
	who.hears("subbed")
	return who
}

func (p *speaker) say(frame string) {
	p.t.Helper()
	if err := p.conn.Write(context.Background(), websocket.MessageText, []byte(frame)); err != nil {
		p.t.Fatal(err)
	}
}

// hears waits for the next frame with this t and gives it; others are passed over.
func (p *speaker) hears(kind string) map[string]any {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	for {
		_, text, err := p.conn.Read(ctx)
		if err != nil {
			p.t.Fatalf("waiting for %s: %v", kind, err)
		}
		var frame map[string]any
		if err := json.Unmarshal(text, &frame); err != nil {
			p.t.Fatalf("%s: %v", text, err)
		}
		if frame["t"] == kind {
			return frame
		}
		if frame["t"] == "sent" && kind != "sent" {
			p.t.Fatalf("waiting for %s: %s", kind, text)
		}
	}
}

const sendOne = `{"t":"send","rid":"r","conv":"c-ab","cmid":"m-1","body":"hi"}`

// faulty starts a server in dir with these faults ("" for none).
func faulty(t *testing.T, dir, spec string, more ...string) *serverProcess {
	t.Helper()
	variables := append([]string{"IM_SWEEP_MS=100"}, more...)
	if spec != "" {
		variables = append(variables, "IM_FAULT="+spec)
	}
	p, err := startServer(dir, filepath.Join(t.TempDir(), "server.err"), variables)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.end(syscall.SIGKILL, -1)
		}
	})
	return p
}

func makeConversation(t *testing.T, p *serverProcess) {
	t.Helper()
	silent := process()
	var err error
	if silent.stdout, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	defer silent.stdout.Close()
	put := []string{"admin", "conv", "put", "c-ab", "--url", p.url, "--kind", "direct", "--member", "u-ana", "--member", "u-ben"}
	if code := run(context.Background(), put, silent); code != exitDone {
		t.Fatalf("admin conv put ends with %d", code)
	}
}

func TestFaultCrashesAroundTheCommit(t *testing.T) {
	for point, stored := range map[fault.Point]bool{fault.BeforeInsert: false, fault.BeforeCommit: false, fault.AfterCommit: true} {
		t.Run(string(point), func(t *testing.T) {
			dir := t.TempDir()
			first := faulty(t, dir, string(point)+":halt")
			makeConversation(t, first)
			ana := first.come(t, "u-ana")
			ana.say(sendOne)
			if err := first.wait(137); err != nil {
				t.Fatal(err)
			}
			again := faulty(t, dir, "")
			ana = again.come(t, "u-ana")
			ana.say(sendOne)
			sent := ana.hears("sent")
			if sent["dup"] != stored || sent["seq"] != 1.0 {
				t.Errorf("the retry gets %v, want seq 1 and dup %v", sent, stored)
			}
		})
	}
}

func TestFaultALostReplyIsNoSecondMessage(t *testing.T) {
	p := faulty(t, t.TempDir(), "gw.reply.send:drop:0:1")
	makeConversation(t, p)
	ana := p.come(t, "u-ana")
	ana.say(sendOne)
	ana.say(`{"t":"ping","rid":"p"}`)
	ana.hears("pong")
	ana.say(sendOne)
	if sent := ana.hears("sent"); sent["dup"] != true || sent["seq"] != 1.0 {
		t.Errorf("the retry gets %v, want the first attempt's seq 1", sent)
	}
}

func TestFaultALostPushIsFoundByTheSweep(t *testing.T) {
	p := faulty(t, t.TempDir(), "gw.push:drop", "IM_RETRY_MS=60000,60000,60000,60000")
	makeConversation(t, p)
	ana, ben := p.come(t, "u-ana"), p.come(t, "u-ben")
	began := time.Now()
	ana.say(sendOne)
	ana.hears("sent")
	if hint := ben.hears("hint"); hint["why"] != "sweep" || hint["head"] != 1.0 {
		t.Errorf("ben is told %v, want a hint of the sweep", hint)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// An ack waits in the server while its device, put back to a backup from before
// the write that the ack reports, says hello on a new connection (D9). Without
// the guard that ack counts for a store that lacks the event.
func TestFaultAnAckOfAnOlderConnectionMovesNothing(t *testing.T) {
	for bug, then := range map[fault.Bug]struct {
		shown     string
		delivered float64
	}{
		"":                   {`im_refused_total{code="STALE_INSTALL",op="ack"} 1`, 0},
		fault.OldSessionAcks: {"im_cursors_moved_total 1", 1},
	} {
		t.Run("bug="+string(bug), func(t *testing.T) {
			t.Parallel()
			p := faulty(t, t.TempDir(), "gw.ack:delay=3000:0:1", "IM_BUG="+string(bug))
			makeConversation(t, p)
			ana, older := p.come(t, "u-ana"), p.come(t, "u-ben")
			ana.say(sendOne)
			older.hears("event")
			older.say(`{"t":"ack","rid":"a","conv":"c-ab","seq":1,"n":8}`)
			waitFor(t, "the ack to be held", func() bool { return strings.Contains(p.log(), fault.Struck(fault.Ack)) })
			newer := p.come(t, "u-ben")
			if bye := older.hears("bye"); bye["code"] != "SUPERSEDED" {
				t.Errorf("the older connection ends with %v", bye)
			}
			waitFor(t, then.shown, func() bool { return slices.Contains(p.metrics(t), then.shown) })
			newer.say(`{"t":"convs","rid":"c"}`)
			if convs := newer.hears("convs")["convs"].([]any); convs[0].(map[string]any)["delivered"] != then.delivered {
				t.Errorf("the conversations are %v, want delivered %v", convs, then.delivered)
			}
		})
	}
}

// metrics are the lines of /metrics.
func (p *serverProcess) metrics(t *testing.T) []string {
	t.Helper()
	resp, err := http.Get(p.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("/metrics: %s, %v", resp.Status, err)
	}
	return strings.Split(string(text), "\n")
}

func TestFaultAnErrorAnswersUnavailable(t *testing.T) {
	p := faulty(t, t.TempDir(), "send.before_commit:error:0:1")
	makeConversation(t, p)
	ana := p.come(t, "u-ana")
	ana.say(sendOne)
	if e := ana.hears("error"); e["code"] != "UNAVAILABLE" || e["retry"] != true {
		t.Errorf("got %v, want UNAVAILABLE that may be retried", e)
	}
	ana.say(sendOne)
	if sent := ana.hears("sent"); sent["dup"] != false || sent["seq"] != 1.0 {
		t.Errorf("the retry gets %v, want a first seq 1", sent)
	}
}

func TestFaultAWrongOneIsWrongConfiguration(t *testing.T) {
	faults := (world{map[string]string{"IM_FAULT": "gw.nothing:drop"}}).mustRead(t).config.validate()
	if len(faults) != 1 || !strings.Contains(fmt.Sprint(faults), "IM_FAULT (--fault)") {
		t.Errorf("got %v", faults)
	}
}
