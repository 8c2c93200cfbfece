package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/impart-im/impart"
)

// Bounds of one request to the admin API.
const (
	clientTime  = 30 * time.Second
	clientReply = 32 << 20 // bytes
)

// defaultURL is where `impart serve` listens with no settings.
const defaultURL = "http://127.0.0.1:8080"

// adminClient asks the admin API of a running server.
type adminClient struct {
	url, token string
	json       bool
	http       http.Client
}

// addClient gives cmd and its subcommands the flags that reach a server.
func addClient(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.String("url", "", "address of the server; IM_URL, or "+defaultURL)
	flags.String("token", "", "token of the admin API; better given as IM_ADMIN_TOKEN")
	flags.Bool("json", false, "print the server's JSON")
}

// newClient reads those flags, and the variables behind them.
func newClient(cmd *cobra.Command, env streams) (*adminClient, error) {
	c := &adminClient{url: defaultURL, http: http.Client{Timeout: clientTime}}
	// A redirect would carry the token to wherever it points.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, choice := range []struct {
		field          *string
		flag, variable string
	}{{&c.url, "url", "IM_URL"}, {&c.token, "token", "IM_ADMIN_TOKEN"}} {
		if value, _ := env.env(choice.variable); value != "" {
			*choice.field = value
		}
		if value, _ := cmd.Flags().GetString(choice.flag); value != "" {
			*choice.field = value
		}
	}
	c.json, _ = cmd.Flags().GetBool("json")
	u, err := url.Parse(c.url)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return nil, usagef("--url (IM_URL): should be the address of a server, such as %s", defaultURL)
	}
	c.url = strings.TrimRight(c.url, "/")
	return c, nil
}

// adminPath joins segments, each escaped, under the admin API.
func adminPath(segments ...string) string {
	escaped := make([]string, len(segments))
	for i, s := range segments {
		escaped[i] = url.PathEscape(s)
	}
	return "/admin/v1/" + strings.Join(escaped, "/")
}

// ask carries out one request. into may be nil; raw is the answer as it came.
func (c *adminClient) ask(ctx context.Context, method, path string, body, into any) (raw []byte, err error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	defer resp.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(resp.Body, clientReply))
	if err != nil {
		return nil, fmt.Errorf("the answer of %s broke off: %w", c.url, err)
	}
	if resp.StatusCode >= 300 {
		return nil, c.refused(resp.StatusCode, raw)
	}
	if into == nil {
		return raw, nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, fmt.Errorf("%s did not answer as an Impart server does; is the address right? (%w)", c.url, err)
	}
	return raw, nil
}

func (c *adminClient) unreachable(err error) error {
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no server answers at %s: start one with impart serve, or name another with --url", c.url)
	case errors.As(err, &dns):
		return fmt.Errorf("the host of %s is not known: check --url", c.url)
	default:
		// The error repeats method and address, but never the token, which is in a header.
		return fmt.Errorf("%s cannot be reached: %w", c.url, err)
	}
}

// refused words an error answer of the API.
func (c *adminClient) refused(status int, raw []byte) error {
	var e struct {
		Code    impart.Code `json:"code"`
		Message string      `json:"message"`
	}
	if json.Unmarshal(raw, &e) != nil || e.Code == "" {
		return fmt.Errorf("%s answered %d %s; is it an Impart server?", c.url, status, http.StatusText(status))
	}
	if e.Code == impart.Unauthenticated {
		return fmt.Errorf("%s: %s; give the admin token as IM_ADMIN_TOKEN or --token", e.Code, oneLine(e.Message))
	}
	return fmt.Errorf("%s: %s", e.Code, oneLine(e.Message))
}

// show prints the answer: as JSON with --json, otherwise by print.
func (c *adminClient) show(cmd *cobra.Command, raw []byte, print func(io.Writer) error) error {
	if !c.json {
		return print(cmd.OutOrStdout())
	}
	value := jsontext.Value(raw)
	if err := value.Indent(jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("the answer of %s is not JSON: %w", c.url, err)
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), string(value))
	return err
}
