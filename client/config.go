package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/impart-im/impart"
)

// Config says who connects to where. The zero value of a field is its default.
type Config struct {
	// URL is the address of a server: http://HOST:PORT, https, ws or wss. Without a
	// path it is that of the WebSocket, /v1/ws.
	URL string
	// Device is the device's id, 1..128 bytes. It belongs to the store: a store
	// that was made for another device is refused.
	Device impart.DeviceID
	// User is who the store belongs to and the tokens have to be for. Open refuses
	// the store of somebody else, and a connection whose token is for somebody else
	// is given up, with nothing sent by it. Give it wherever more than one user may
	// use a device: with "" the store belongs to whoever its first token is for, and
	// Send before that writes for whoever that will be.
	User impart.UserID
	// Token gives a token for the next connection; it is asked before each one. An
	// error is reported in the Status, and asked for again later. Nothing but Close ends
	// its ctx: it bounds its own waits. See [StaticToken].
	Token func(ctx context.Context) (string, error)
	// Store is the path of the local store, a SQLite file that is created if it is
	// not there. "" keeps it in memory: whatever is in the outbox dies with the client.
	Store string
	// History is how many events of each conversation a new store starts with; nil: all.
	History *int64
	// Handler is told what happens.
	Handler Handler
	// HTTPClient makes the WebSocket handshakes; nil: http.DefaultClient.
	HTTPClient *http.Client
	// Log gets what a developer would want to see; nil: nothing is logged. It never
	// gets a body or a token.
	Log *slog.Logger

	// ReplyTimeout is how long a request waits for its reply before it is sent
	// again, and how long a silent connection is trusted after a ping. 10 s.
	ReplyTimeout time.Duration
	// AckDelay is how long stored events may wait for others to share an ack. 200 ms.
	AckDelay time.Duration
	// MinBackoff and MaxBackoff bound the wait before a reconnect, which is drawn
	// between 0 and a limit that doubles from one to the other. 500 ms, 30 s.
	MinBackoff, MaxBackoff time.Duration
	// StableAfter is how long a connection has to live before the limit starts anew. 30 s.
	StableAfter time.Duration
	// MaxOutbox bounds how many messages may wait for an answer. 10,000.
	MaxOutbox int
}

// StaticToken is a [Config.Token] that is always the same.
func StaticToken(token string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}

// withDefaults fills in what is zero and reports all faults at once.
func (cfg Config) withDefaults() (Config, error) {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&cfg.ReplyTimeout, 10 * time.Second}, {&cfg.AckDelay, 200 * time.Millisecond},
		{&cfg.MinBackoff, 500 * time.Millisecond}, {&cfg.MaxBackoff, 30 * time.Second}, {&cfg.StableAfter, 30 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if cfg.MaxOutbox == 0 {
		cfg.MaxOutbox = 10_000
	}
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = http.DefaultClient
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	address, err := wsURL(cfg.URL)
	cfg.URL = address
	faults := []error{err, impart.CheckID("Device", string(cfg.Device), impart.MaxID)}
	if cfg.Token == nil {
		faults = append(faults, errors.New("there is no Token: give a function, such as client.StaticToken"))
	}
	if cfg.History != nil && *cfg.History < 0 {
		faults = append(faults, errors.New("the History is negative"))
	}
	if cfg.ReplyTimeout < 0 || cfg.AckDelay < 0 || cfg.MinBackoff < 0 || cfg.StableAfter < 0 || cfg.MaxOutbox < 0 {
		faults = append(faults, errors.New("a time or a limit is negative"))
	}
	if cfg.MaxBackoff < cfg.MinBackoff {
		faults = append(faults, errors.New("the MaxBackoff is below the MinBackoff"))
	}
	if err := errors.Join(faults...); err != nil {
		return cfg, fmt.Errorf("client: %w", err)
	}
	return cfg, nil
}

// wsURL is the address of the WebSocket behind the address of a server.
func wsURL(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return "", errors.New("the URL should be the address of a server, such as http://127.0.0.1:8080")
	}
	switch u.Scheme {
	case "http", "ws":
		u.Scheme = "ws"
	case "https", "wss":
		u.Scheme = "wss"
	default:
		return "", fmt.Errorf("the URL has the scheme %q; it should be http, https, ws or wss", u.Scheme)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/ws"
	}
	return u.String(), nil
}
