package blackbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/impart"
	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// patience bounds every wait for something that must come. It is generous because the machine may be busy; nothing
// that passes ever takes as long. A binary with the race detector needs more.
var patience = scaled(15 * time.Second)

// bulk is patience for megabytes.
var bulk = scaled(60 * time.Second)

func scaled(d time.Duration) time.Duration {
	if os.Getenv("IMPART_RACE") != "" {
		return 5 * d
	}
	return d
}

// quiet is how long a test listens when it claims that something does not come.
const quiet = 400 * time.Millisecond

// F is a frame or an HTTP body to send.
type F = map[string]any

// world is one test's own users and conversations on a server.
type world struct {
	t     testing.TB
	srv   *impart.Server
	nodes []*impart.Server // with srv as the first, where there are several
	turn  atomic.Int64     // whose of them it is
	ns    string
}

var worlds atomic.Int64

// onShared gives a world on the server with default settings that all such tests share.
func onShared(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return newWorld(t, impart.Shared(t))
}

// onOwn gives a world on a server of its own, with settings.
func onOwn(t *testing.T, env ...string) *world {
	t.Helper()
	t.Parallel()
	return newWorld(t, impart.Start(t, env...))
}

func newWorld(t testing.TB, srv *impart.Server) *world {
	return &world{t: t, srv: srv, nodes: append([]*impart.Server{srv}, srv.Peers()...), ns: fmt.Sprintf(".%d", worlds.Add(1))}
}

// onNodes gives a world on n servers with one fresh database, with settings.
func onNodes(t *testing.T, n int, env ...string) *world {
	t.Helper()
	t.Parallel()
	d := impart.Deploy(t)
	return startNodes(t, n, slices.Concat([]string{"IM_STORE=" + d.Store}, d.Env(), env))
}

// newWorldOn starts n servers on a database.
func newWorldOn(t *testing.T, d impart.Database, n int, env ...string) *world {
	t.Helper()
	return startNodes(t, n, append([]string{d.Store()}, env...))
}

// startNodes starts n servers. Connections that name none of them go to each in turn.
func startNodes(t *testing.T, n int, env []string) *world {
	t.Helper()
	w := &world{t: t, ns: fmt.Sprintf(".%d", worlds.Add(1))}
	for range n {
		w.nodes = append(w.nodes, impart.Start(t, env...))
	}
	w.srv = w.nodes[0]
	return w
}

// addr is where the next connection goes.
func (w *world) addr() string {
	if len(w.nodes) == 1 {
		return w.srv.Addr()
	}
	return w.nodes[int(w.turn.Add(1))%len(w.nodes)].Addr()
}

// at is where a node listens, for devices that stay with it.
func (w *world) at(node int) func() string { return w.nodes[node].Addr }

// onlineAt is a device that has said hello to one node and subscribed.
func (w *world) onlineAt(node int, name, device string) *client {
	w.t.Helper()
	c := w.loginAt(w.nodes[node].Addr(), name, device, nil)
	c.want("subbed", F{"t": "sub"})
	return c
}

// user gives the id of one of this world's users: "ana" is u-ana.7, say.
func (w *world) user(name string) string { return "u-" + name + w.ns }

func (w *world) users(names ...string) []string {
	ids := make([]string, len(names))
	for i, n := range names {
		ids[i] = w.user(n)
	}
	return ids
}

// conv creates a group conversation and gives its id.
func (w *world) conv(name string, members ...string) string {
	w.t.Helper()
	return w.convWith(name, F{"kind": "group", "members": w.users(members...)})
}

func (w *world) convWith(name string, body F) string {
	w.t.Helper()
	id := "c-" + name + w.ns
	w.srv.Admin(w.t, "PUT", "conversations/"+url.PathEscape(id), body)
	return id
}

func (w *world) join(conv, name string) {
	w.t.Helper()
	w.srv.Admin(w.t, "PUT", "conversations/"+url.PathEscape(conv)+"/members/"+w.user(name), F{"role": "member"})
}

func (w *world) leave(conv, name string) {
	w.t.Helper()
	w.srv.Admin(w.t, "DELETE", "conversations/"+url.PathEscape(conv)+"/members/"+w.user(name), nil)
}

// dial connects without a hello.
func (w *world) dial() *client {
	w.t.Helper()
	return w.dialAt(w.addr(), rawclient.DialOptions{})
}

func (w *world) dialAt(address string, o rawclient.DialOptions) *client {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, _, err := rawclient.Dial(ctx, address, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return &client{Conn: c, t: w.t}
}

// hello is the fields of a correct hello of name's device with install "i1", changed by `with`; nil removes a field.
func (w *world) hello(name, device string, with F) F {
	h := F{"t": "hello", "token": "dev:" + w.user(name), "device": device, "install": "i1", "proto": 1, "features": []string{}}
	for k, v := range with {
		if h[k] = v; v == nil {
			delete(h, k)
		}
	}
	return h
}

// login connects and says hello; `with` changes the hello.
func (w *world) login(name, device string, with F) *client {
	w.t.Helper()
	return w.loginAt(w.addr(), name, device, with)
}

func (w *world) loginAt(address, name, device string, with F) *client {
	w.t.Helper()
	c := w.dialAt(address, rawclient.DialOptions{})
	c.user, c.device = w.user(name), device
	c.welcome = c.want("welcome", w.hello(name, device, with))
	return c
}

// online is a device that has said hello and subscribed.
func (w *world) online(name, device string) *client {
	w.t.Helper()
	c := w.login(name, device, nil)
	c.want("subbed", F{"t": "sub"})
	return c
}

// api makes an HTTP request as name's device phone with install i1.
func (w *world) api(name, op string, body any) impart.Response {
	w.t.Helper()
	return w.apiWith(w.bearer(name, "phone", "i1"), op, body)
}

func (w *world) apiWith(header http.Header, op string, body any) impart.Response {
	w.t.Helper()
	return w.srv.Request(w.t, "POST", "/api/msg/"+op, header, body)
}

func (w *world) bearer(name, device, install string) http.Header {
	return http.Header{
		"Authorization": {"Bearer dev:" + w.user(name)}, "Impart-Device": {device}, "Impart-Install": {install},
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
