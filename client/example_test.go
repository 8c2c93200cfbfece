package client_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
	"github.com/impart-im/impart/internal/lab/world"
)

// server is a running Impart with the conversation c-ab of u-ana and u-ben. It
// stands for your own: only the address and the tokens would be others.
func exampleServer() (address string, dial func() *http.Client, stop func()) {
	w, err := world.New(world.Options{})
	if err == nil {
		err = w.Conversation("c-ab", "u-ana", "u-ben")
	}
	if err != nil {
		panic(err)
	}
	return world.URL, func() *http.Client { return w.Link().HTTPClient() }, func() { _ = w.Close() }
}

// Two devices talk. Send returns once the message is in the local outbox; the
// handler gets each event of the log once, in order, after it is stored.
func Example() {
	address, dial, stop := exampleServer()
	defer stop()
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	arrived := make(chan impart.Event)
	ben, err := client.Open(ctx, client.Config{
		URL: address, Device: "d-ben", Token: client.StaticToken("dev:u-ben"), HTTPClient: dial(),
		Store: filepath.Join(dir, "ben.db"),
		Handler: client.Handler{Event: func(_ context.Context, ev impart.Event) error {
			arrived <- ev
			return nil
		}},
	})
	if err != nil {
		panic(err)
	}
	defer ben.Close()

	ana, err := client.Open(ctx, client.Config{
		URL: address, Device: "d-ana", Token: client.StaticToken("dev:u-ana"), HTTPClient: dial(),
		Store: filepath.Join(dir, "ana.db"),
	})
	if err != nil {
		panic(err)
	}
	defer ana.Close()
	if _, err := ana.Send(ctx, client.Draft{Conv: "c-ab", Body: "hello"}); err != nil {
		panic(err)
	}
	ev := <-arrived
	fmt.Println(ev.Seq, ev.Sender, ev.Body)
	// Output: 1 u-ana hello
}

// A message that was written without a network waits in the outbox, also while
// the application is not running.
func ExampleClient_Send_offline() {
	address, dial, stop := exampleServer()
	defer stop()
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	cfg := client.Config{
		URL: "http://127.0.0.1:1", Device: "d-ana", Token: client.StaticToken("dev:u-ana"),
		Store: filepath.Join(dir, "ana.db"),
	}
	ana, err := client.Open(ctx, cfg)
	if err != nil {
		panic(err)
	}
	for _, text := range []string{"one", "two"} {
		if _, err := ana.Send(ctx, client.Draft{Conv: "c-ab", Body: text}); err != nil {
			panic(err)
		}
	}
	waiting, _ := ana.Outbox(ctx)
	fmt.Println(len(waiting), "wait")
	ana.Close()

	cfg.URL, cfg.HTTPClient = address, dial()
	ana, err = client.Open(ctx, cfg)
	if err != nil {
		panic(err)
	}
	defer ana.Close()
	if err := ana.WaitSettled(ctx); err != nil {
		panic(err)
	}
	if err := ana.WaitOnline(ctx); err != nil {
		panic(err)
	}
	log, _ := ana.Events(ctx, "c-ab", 0, 10)
	for _, ev := range log {
		fmt.Println(ev.Seq, ev.Body)
	}
	// Output:
	// 2 wait
	// 1 one
	// 2 two
}

// Cancel takes a message back, wherever it is by then.
func ExampleClient_Cancel() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	ctx := context.Background()
	ana, err := client.Open(ctx, client.Config{
		URL: "http://127.0.0.1:1", Device: "d-ana", Token: client.StaticToken("dev:u-ana"),
		Store: filepath.Join(dir, "ana.db"),
	})
	if err != nil {
		panic(err)
	}
	defer ana.Close()
	cmid, err := ana.Send(ctx, client.Draft{Conv: "c-ab", Body: "oops"})
	if err != nil {
		panic(err)
	}
	done, err := ana.Cancel(ctx, cmid)
	fmt.Println(done, err)
	// Output: not-sent <nil>
}
