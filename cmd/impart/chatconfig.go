package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
	"github.com/impart-im/impart/internal/chat"
)

// chatConfig makes the client's configuration from flags and variables.
func chatConfig(f *chatFlags, env streams) (chat.Config, error) {
	var cfg chat.Config
	if f.as == "" {
		return cfg, usagef("--as: should name a user, such as u-ana")
	}
	for _, choice := range []struct {
		field         *string
		variable, def string
	}{{&f.url, "IM_URL", defaultURL}, {&f.token, "IM_TOKEN", ""}} {
		if *choice.field == "" {
			*choice.field, _ = env.env(choice.variable)
		}
		if *choice.field == "" {
			*choice.field = choice.def
		}
	}
	address, err := url.Parse(f.url)
	if err != nil || address.Host == "" {
		return cfg, usagef("--url (IM_URL): should be the address of a server, such as %s", defaultURL)
	}
	if f.device == "" {
		f.device = defaultDevice()
	}
	for _, id := range []struct{ flag, value string }{{"--as", f.as}, {"--device", f.device}, {"--conv", f.conv}} {
		if err := impart.CheckID(id.flag, id.value, impart.MaxID); err != nil && (id.flag != "--conv" || f.conv != "") {
			return cfg, usageError{errors.New(impart.AsError(err).Message)}
		}
	}
	if f.history < 0 || f.since < 0 || f.timeout < 0 {
		return cfg, usagef("--history, --since and --timeout: should not be negative")
	}
	if f.store == "" {
		if f.store, err = chatStore(env, address, f.as, f.device); err != nil {
			return cfg, err
		}
	}
	history := int64(f.history)
	cfg.Conv = impart.ConvID(f.conv)
	cfg.Client = client.Config{
		URL: f.url, Device: impart.DeviceID(f.device), User: impart.UserID(f.as), Token: f.tokens(), Store: f.store, History: &history,
	}
	return cfg, nil
}

// defaultDevice is the same on one machine, and another on another one.
func defaultDevice() string {
	host, err := os.Hostname()
	if err != nil || impart.CheckID("device", "chat-"+host, impart.MaxID) != nil {
		host = "here"
	}
	return "chat-" + host
}

// chatStore is the path of the store of a device of a user of a server, in the
// user's state folder (XDG base directories).
func chatStore(env streams, address *url.URL, user, device string) (string, error) {
	state, _ := env.env("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the specification says to ignore others
		home, err := os.UserHomeDir()
		if err != nil {
			return "", usagef("--store: should name a file; there is no home folder for the default (%w)", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	server := asFileName(address.Host + strings.TrimSuffix(address.Path, "/"))
	return filepath.Join(state, "impart", "chat", server, asFileName(user), asFileName(device)+".db"), nil
}

// asFileName is an id as the name of a file: different for different ids, also where
// case does not count.
func asFileName(id string) string {
	var b strings.Builder
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	name := b.String()
	if len(name) > maxFileName {
		sum := sha256.Sum256([]byte(id))
		name = name[:maxFileName] + "-" + hex.EncodeToString(sum[:16])
	}
	return name
}

// maxFileName keeps names of long ids within what file systems take, 255 bytes.
const maxFileName = 150

// tokenTime bounds one run of the token command.
const tokenTime = 30 * time.Second

// tokens gives the token: of the command if there is one, or always the same.
func (f *chatFlags) tokens() func(context.Context) (string, error) {
	if f.tokenCommand == "" {
		if f.token == "" {
			return client.StaticToken("dev:" + f.as)
		}
		return client.StaticToken(f.token)
	}
	return func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, tokenTime)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", f.tokenCommand)
		cmd.WaitDelay = time.Second
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		token := strings.TrimSpace(string(out))
		switch {
		case err != nil:
			return "", fmt.Errorf("--token-command failed: %w: %s", err, oneLine(strings.TrimSpace(said.String())))
		case token == "":
			return "", errors.New("--token-command printed nothing")
		}
		return token, nil
	}
}
