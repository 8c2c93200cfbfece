// Package chat is the terminal client on the Go SDK: a full-screen form, and
// plain forms that a script can drive. It promises what the SDK promises: a line
// that was taken is in the durable outbox and is sent by this run or the next.
// What it may lose: typing, and receipts that come while the output is blocked.
// Nothing that others wrote reaches the terminal as a control sequence.
package chat

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// Config says whose client it is and what it looks at.
type Config struct {
	// Client is the SDK's configuration. Handler is set by Open.
	Client client.Config
	// Conv is the conversation; "" lets the screen choose.
	Conv impart.ConvID
}

// Chat is an open client and what it has been told since anybody looked.
type Chat struct {
	*client.Client
	conv impart.ConvID
	user impart.UserID
	path string
	feed *feed
}

// Open opens the local store, makes the folders above it, and connects in the
// background. An error says what to do, for instance when another process has the
// store open.
func Open(ctx context.Context, cfg Config) (*Chat, error) {
	c := &Chat{conv: cfg.Conv, user: cfg.Client.User, path: cfg.Client.Store, feed: newFeed()}
	if c.path != "" {
		// Others on this machine must not read what is said here.
		if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
			return nil, fmt.Errorf("the folder of the store cannot be made: %w; name another place with --store", err)
		}
	}
	cfg.Client.Handler = c.feed.handler()
	var err error
	if c.Client, err = client.Open(ctx, cfg.Client); err != nil {
		return nil, openError(err)
	}
	return c, nil
}

// Offline is cfg for a look into the store without a connection.
func (cfg Config) Offline() Config {
	cfg.Client.HTTPClient = &http.Client{Transport: noNetwork{}}
	return cfg
}

type noNetwork struct{}

func (noNetwork) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("this run does not connect")
}

// openError adds what to do.
func openError(err error) error {
	if errors.Is(err, client.ErrInUse) {
		return fmt.Errorf("%w: leave the other impart chat, or give this one a device of its own with --device", err)
	}
	return err
}

// place names the store in a message.
func (c *Chat) place() string {
	if c.path == "" {
		return "memory, so it is lost"
	}
	return c.path
}
