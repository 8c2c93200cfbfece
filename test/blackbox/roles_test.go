package blackbox

// Stories of logic nodes that go away under their gateways.

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/impart"
	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// onRoles gives a world of two logic nodes and two gateways on one database; connections go to each gateway in turn.
func onRoles(t *testing.T, env ...string) (w *world, logic []*impart.Server) {
	t.Helper()
	d := impart.Deploy(t)
	t.Parallel()
	return startRoles(t, d, 2, 2, env...)
}

// startRoles starts gateways and logic nodes. Each gateway knows every logic node.
func startRoles(t *testing.T, d *impart.Deployment, gateways, nodes int, env ...string) (w *world, logic []*impart.Server) {
	t.Helper()
	env = append(d.Env(), env...)
	for range nodes {
		logic = append(logic, impart.StartWith(t, impart.Config{Args: []string{"logic"}, Store: d.Store, Env: env}))
	}
	w = &world{t: t, ns: fmt.Sprintf(".%d", worlds.Add(1))}
	for range gateways {
		w.nodes = append(w.nodes, impart.StartWith(t, impart.Config{Args: []string{"gateway"}, Store: d.Store, Logic: logic, Env: env}))
	}
	w.srv = w.nodes[0]
	return w, logic
}

// crowdOf posts from four devices to four conversations while act goes on; afterwards every message is in its log once, in the order of its sender.
func (w *world) crowdOf(act func()) {
	w.t.Helper()
	names := []string{"ana", "ben", "cai", "dan"}
	var convs []string
	for i := range names {
		convs = append(convs, w.conv(fmt.Sprint("c", i), names...))
	}
	var devices []*rawclient.Device
	for i, name := range names {
		devices = append(devices, w.deviceWith(rawclient.DeviceOptions{
			Device: "phone", Address: w.at(i % len(w.nodes)), OnFrame: func(f rawclient.Frame) {
				if f.T() == "error" {
					w.t.Logf("%s: %s has seen %s", time.Now().Format(time.StampMilli), name, f.Object)
				}
			},
		}, name))
	}
	for _, d := range devices {
		d.Start()
	}
	over, rounds := make(chan struct{}), 0
	var posting sync.WaitGroup
	posting.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ; ; rounds++ {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			for i, d := range devices {
				d.Post(convs[(rounds+i)%len(convs)], fmt.Sprint(names[i], rounds))
			}
		}
	})
	stop := sync.OnceFunc(func() { close(over); posting.Wait() })
	w.t.Cleanup(stop) // if act ends the test
	act()
	stop()
	for i, conv := range convs {
		log := w.std(conv, names[i], devices...)
		if len(log) != rounds {
			w.t.Errorf("%s has %d messages, and %d were posted", conv, len(log), rounds)
		}
		last := map[string]int{}
		for _, ev := range log {
			name, n := ev.Body[:3], 0
			if _, err := fmt.Sscan(ev.Body[3:], &n); err != nil {
				w.t.Fatal(err)
			}
			if before, some := last[name]; some && n <= before {
				w.t.Errorf("%s: %q stands behind %d", conv, ev.Body, before)
			}
			last[name] = n
		}
	}
}

// noErrors demands that no gateway has sent an error frame.
func (w *world) noErrors() {
	w.t.Helper()
	for _, gateway := range w.nodes {
		for code := range retryable {
			if n, _ := gateway.Metric(w.t, "im_error_total", strconv.Quote(code)); n > 0 {
				w.t.Errorf("devices have seen %v errors %s", n, code)
			}
		}
	}
}

// A logic node is killed under load, again and again; the other one takes over, and it comes back.
func TestRolesALogicNodeIsKilled(t *testing.T) {
	w, logic := onRoles(t)
	w.crowdOf(func() {
		for round := range 4 {
			time.Sleep(300 * time.Millisecond)
			node := logic[round%2]
			node.Kill()
			time.Sleep(300 * time.Millisecond)
			node.MustRestart(t)
			until(t, "a gateway with both nodes", func() bool {
				up, _ := w.srv.Metric(t, "im_rpc_node_up", "")
				return up == 2
			})
		}
	})
	if retried, _ := w.srv.Metric(t, "im_rpc_retries_total", ""); retried == 0 {
		if again, _ := w.nodes[1].Metric(t, "im_rpc_retries_total", ""); again == 0 {
			t.Error("no call was under way at a node that died: the story tells nothing")
		}
	}
	w.noErrors()
}

// A logic node is frozen under load: its calls go to the other one after three seconds, and nothing that it does when it
// goes on is seen twice.
func TestRolesALogicNodeIsFrozen(t *testing.T) {
	w, logic := onRoles(t)
	w.crowdOf(func() {
		time.Sleep(300 * time.Millisecond)
		if err := logic[0].Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for _, g := range w.nodes {
			until(t, "a gateway that has given it up", func() bool {
				return strings.Contains(string(g.Request(t, "GET", "/readyz", nil, nil).Raw), "ready\nwarn: logic: 1 of 2 nodes serve")
			})
		}
		time.Sleep(500 * time.Millisecond)
		if err := logic[0].Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		for _, g := range w.nodes {
			until(t, "a gateway with both nodes", func() bool { up, _ := g.Metric(t, "im_rpc_node_up", ""); return up == 2 })
		}
		time.Sleep(300 * time.Millisecond)
	})
	w.noErrors()
}

// Logic nodes are restarted one after the other under load, and hellos come all the time: no device sees an error.
func TestRolesARollingRestart(t *testing.T) {
	w, logic := onRoles(t)
	w.crowdOf(func() {
		for round := range 4 {
			for i := range 10 {
				w.login("eve", fmt.Sprint("phone", round, i), nil)
			}
			node := logic[round%2]
			if code, took := node.Terminate(10 * time.Second); code != 0 || took > scaled(5*time.Second) {
				t.Errorf("a logic node ended with %d after %v", code, took)
			}
			for i := range 10 {
				w.login("eve", fmt.Sprint("tablet", round, i), nil)
			}
			node.MustRestart(t)
			until(t, "a gateway with both nodes", func() bool { up, _ := w.srv.Metric(t, "im_rpc_node_up", ""); return up == 2 })
		}
	})
	w.noErrors()
}

// No logic node is there: connections stay open, requests are told to come again, and all is well by itself later.
func TestRolesWithoutALogicNode(t *testing.T) {
	w, logic := onRoles(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.onlineAt(0, "ana", "phone"), w.onlineAt(1, "ben", "phone")
	for _, node := range logic {
		node.Kill()
	}
	until(t, "a gateway that is not ready", func() bool {
		return strings.HasPrefix(string(w.srv.Request(t, "GET", "/readyz", nil, nil).Raw), "not ready\nfail: logic: no logic node answers")
	})
	ana.refuse("UNAVAILABLE", F{"t": "send", "conv": ab, "cmid": "k1", "body": "x"})
	for _, node := range logic {
		node.MustRestart(t)
	}
	until(t, "a gateway that is ready", func() bool { return w.srv.Request(t, "GET", "/readyz", nil, nil).Status == 200 })
	seq := ana.send(ab, "k1", "x").Int("seq")
	if ev := ben.event(ab, seq); ev.Str("body") != "x" {
		t.Errorf("ben has %s", ev)
	}
}
