package blackbox

// Kinds 1 to 4: who may connect, and for how long.

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/impart"
	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// clockSkew is the most by which a server may stretch the life of a token.
const clockSkew = time.Minute

// handshake tries an upgrade with an Origin and says whether it was accepted.
func handshake(t testing.TB, address, origin string) (accepted bool, status int) {
	t.Helper()
	h := http.Header{}
	if origin != "" {
		h.Set("Origin", origin)
	}
	s, err := rawclient.DialSocket(address, h, 0)
	switch {
	case err == nil:
		s.Close()
		return true, s.Response.StatusCode
	case errors.Is(err, rawclient.ErrRefused):
		return false, s.Response.StatusCode
	default:
		t.Fatalf("origin %q: %v", origin, err)
		return false, 0
	}
}

func TestSecurity01_Origins(t *testing.T) {
	own := onOwn(t)
	addr := own.srv.Addr()
	for origin, want := range map[string]bool{
		"": true, "http://" + addr: true, // native clients send none; the server's own pages send its host
		"http://evil.example": false, "null": false, "https://evil.example": false, "http://" + addr + ".evil.example": false,
		"http://evil" + addr: false, "http://evil.example/" + addr: false, "http://" + addr + "@evil.example": false, "file://": false,
		"http://127.0.0.1:1": false, "javascript:alert(1)": false, "http://": false, "x": false,
	} {
		if got, status := handshake(t, addr, origin); got != want || !got && status != 403 {
			t.Errorf("origin %q: accepted %v with %d, want %v (a refusal is 403)", origin, got, status, want)
		}
	}
	listed := impart.Start(t, "IM_ORIGINS=https://app.example")
	for origin, want := range map[string]bool{
		"": true, "https://app.example": true, "http://app.example": false, "https://app.example.evil.example": false, "https://evilapp.example": false,
		"https://app.example:444": false, "https://sub.app.example": false, "null": false, "https://app.example@evil.example": false,
	} {
		if got, status := handshake(t, listed.Addr(), origin); got != want {
			t.Errorf("IM_ORIGINS=https://app.example, origin %q: accepted %v (%d), want %v", origin, got, status, want)
		}
	}
}

// A token in the URL is refused, and no token is ever in the log or the metrics, however it came.
func TestSecurity02_TokensInURLs(t *testing.T) {
	w := onOwn(t, "IM_AUTH_HMAC_SECRET="+secret, "IM_ADMIN_TOKEN=admin-token-for-this-test-only")
	inURL, inFrame, bad := goodToken(t, "u-url", time.Hour), goodToken(t, "u-frame", time.Hour), goodToken(t, "u-bad", time.Hour)+"x"
	ctx, cancel := testContext(t, patience)
	defer cancel()
	for _, name := range []string{"token", "access_token", "authorization"} {
		c, resp, err := rawclient.Dial(ctx, w.srv.Addr(), rawclient.DialOptions{Query: name + "=" + inURL})
		if err != nil {
			if resp == nil || resp.StatusCode/100 != 4 {
				t.Errorf("?%s=: %v", name, err)
			}
			continue
		}
		h := rawclient.NewHello("", "phone", "i1")
		if err := c.JSON(h); err != nil {
			t.Fatal(err)
		}
		if f, err := c.Reply(ctx, "hello"); err != nil || f.Str("code") != "UNAUTHENTICATED" {
			t.Errorf("?%s= and a hello without token: %v %v, want UNAUTHENTICATED", name, f.Object, err)
		}
		c.Close()
		if r := w.srv.Request(t, "POST", "/api/msg/pull?"+name+"="+inURL, http.Header{"Impart-Device": {"phone"}, "Impart-Install": {"i1"}}, F{}); r.Status != 401 {
			t.Errorf("HTTP with ?%s=: %s, want 401", name, r)
		}
	}
	for _, tok := range []string{inFrame, bad} {
		c := w.dial()
		c.ask(F{"t": "hello", "token": tok, "device": "phone", "install": "i1", "proto": 1})
		w.srv.Request(t, "POST", "/api/msg/pull", http.Header{"Authorization": {"Bearer " + tok}, "Impart-Device": {"phone"}, "Impart-Install": {"i1"}}, F{})
		w.srv.Request(t, "POST", "/api/msg/nonsense", http.Header{"Authorization": {"Bearer " + tok}}, "{"+tok)
	}
	metrics := string(w.srv.Request(t, "GET", "/metrics", http.Header{"Authorization": {"Bearer admin-token-for-this-test-only"}}, nil).Raw)
	for name, text := range map[string]string{"the log": w.srv.Log(), "/metrics": metrics} {
		for what, tok := range map[string]string{"in the URL": inURL, "of a hello": inFrame, "a bad one": bad} {
			if signature := tok[strings.LastIndex(tok, ".")+1:]; strings.Contains(text, signature) {
				t.Errorf("%s has a token (%s)", name, what)
			}
		}
		if strings.Contains(text, secret) || strings.Contains(text, "admin-token-for-this-test-only") {
			t.Errorf("%s has a secret of the configuration", name)
		}
	}
}

// forgeries gives one good token of u-ana and many that must be refused, by what is wrong with them.
func forgeries(t testing.TB) (good string, bad map[string]string) {
	now := time.Now().Unix()
	hs := F{"alg": "HS256", "typ": "JWT"}
	claims := func(with F) F {
		c := F{"sub": "u-ana", "iat": now, "exp": now + 3600}
		for k, v := range with {
			if c[k] = v; v == nil {
				delete(c, k)
			}
		}
		return c
	}
	good = token(t, hs, claims(nil), secret)
	parts := strings.Split(good, ".")
	other := base64.RawURLEncoding.EncodeToString([]byte(mustJSON(t, claims(F{"sub": "u-admin"}))))
	return good, map[string]string{
		"alg none":                token(t, F{"alg": "none", "typ": "JWT"}, claims(nil), ""),
		"alg None":                token(t, F{"alg": "None"}, claims(nil), ""),
		"no alg":                  token(t, F{"typ": "JWT"}, claims(nil), secret),
		"none with signature":     token(t, F{"alg": "none"}, claims(nil), secret),
		"wrong key":               token(t, hs, claims(nil), secret+"x"),
		"empty key":               token(t, hs, claims(nil), "\x00"),
		"RS256 by the secret":     token(t, F{"alg": "RS256"}, claims(nil), secret),
		"expired":                 token(t, hs, claims(F{"exp": now - 3600}), secret),
		"not yet":                 token(t, hs, claims(F{"nbf": now + 3600}), secret),
		"expiry is text":          token(t, hs, claims(F{"exp": "tomorrow"}), secret),
		"no subject":              token(t, hs, claims(F{"sub": nil}), secret),
		"an empty subject":        token(t, hs, claims(F{"sub": ""}), secret),
		"a subject that is no id": token(t, hs, claims(F{"sub": "a\nb"}), secret),
		"another user's claims":   parts[0] + "." + other + "." + parts[2],
		"no signature":            parts[0] + "." + parts[1] + ".",
		"two parts":               parts[0] + "." + parts[1],
		"four parts":              good + ".x",
		"a dev token":             "dev:u-ana",
		"padding":                 good + "=",
		"nothing":                 "",
		"a key by URL":            token(t, F{"alg": "HS256", "jku": "http://127.0.0.1:1/keys", "kid": "../../../../dev/null"}, claims(nil), "\x00"),
	}
}

func TestSecurity03_ForgedAndExpiredTokens(t *testing.T) {
	w := onOwn(t, "IM_AUTH_HMAC_SECRET="+secret, "IM_ADMIN_TOKEN=admin-token-for-this-test-only")
	good, bad := forgeries(t)
	try := func(tok string) (rawclient.Frame, int) {
		c := w.dial()
		f := c.ask(F{"t": "hello", "token": tok, "device": "phone", "install": "i1", "proto": 1, "features": []string{}})
		r := w.srv.Request(t, "POST", "/api/msg/sync", http.Header{"Authorization": {"Bearer " + tok}, "Impart-Device": {"phone"}, "Impart-Install": {"i1"}}, F{"conv": "c-none", "after": 0})
		return f, r.Status
	}
	if f, status := try(good); f.T() != "welcome" || f.Str("user") != "u-ana" || status != 403 {
		t.Fatalf("a good token: %s and HTTP %d, want welcome and 403 for the unknown conversation", f.Object, status)
	}
	for name, tok := range bad {
		f, status := try(tok)
		if f.Str("code") != "UNAUTHENTICATED" || status != 401 {
			t.Errorf("%s: %s and HTTP %d, want UNAUTHENTICATED and 401", name, f.Object, status)
			continue
		}
		checkError(t, f.Object)
	}
	for name, h := range map[string]http.Header{"no token": {}, "a user's token": {"Authorization": {"Bearer " + good}}, "a wrong one": {"Authorization": {"Bearer admin"}}} {
		if r := w.srv.Request(t, "PUT", "/admin/v1/users/u-x", h, F{}); r.Status != 401 && r.Status != 403 {
			t.Errorf("the admin API with %s: %s, want 401", name, r)
		}
	}
	if r := w.srv.Request(t, "PUT", "/admin/v1/users/u-x", http.Header{"Authorization": {"Bearer admin-token-for-this-test-only"}}, F{}); r.Status/100 != 2 {
		t.Errorf("the admin API with its token: %s", r)
	}
}

// A connection ends when its token does, or soon after where the server allows for clocks that differ.
func TestSecurity03_TokenExpiresOnALiveConnection(t *testing.T) {
	w := onOwn(t, "IM_AUTH_HMAC_SECRET="+secret)
	c := w.dial()
	lives := 3 * time.Second
	c.want("welcome", F{"t": "hello", "token": goodToken(t, "u-ana", lives), "device": "phone", "install": "i1", "proto": 1})
	began := time.Now()
	c.bye(lives+clockSkew+patience, "EXPIRED", false)
	if took := time.Since(began); took < time.Second || took > lives+clockSkew+5*time.Second {
		t.Errorf("EXPIRED after %v, the token lived for %v", took, lives)
	}
}

// What would be open to the world is refused at start, in one line that names the setting, with exit code 2.
func TestSecurity03_OpenToTheWorldIsRefused(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{
		"dev login off loopback": {"IM_LISTEN=0.0.0.0:0"}, "dev login on all IPv6 addresses": {"IM_LISTEN=[::]:0"}, "no host at all": {"IM_LISTEN=:0"},
		"plain ws off loopback": {"IM_LISTEN=0.0.0.0:0", "IM_AUTH_HMAC_SECRET=" + secret},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := impart.Command(t, impart.Config{Env: env})
		out := endsWithin(ctx, t, cmd)
		if cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("%s: exit code %d, want 2; output %s", name, cmd.ProcessState.ExitCode(), out)
		}
		if !strings.Contains(out, "IM_LISTEN") && !strings.Contains(out, "IM_TLS") && !strings.Contains(out, "IM_AUTH") {
			t.Errorf("%s: the message names no setting: %s", name, out)
		}
		if strings.Contains(out, secret) {
			t.Errorf("%s: the message shows the secret", name)
		}
	}
}

// endsWithin runs a command that must end by itself and gives all its output.
func endsWithin(ctx context.Context, t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case <-done:
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		<-done
		t.Errorf("%v did not end", cmd.Args)
	}
	return out.String()
}

// A revoked or disabled user's sockets are closed within a second, for good, and a disabled one does not come back.
func TestSecurity04_RevokedAndDisabledUsers(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	ben := w.online("ben", "phone")
	phone, tablet := w.online("ana", "phone"), w.online("ana", "tablet")
	revoke := time.Now()
	w.srv.Admin(t, "POST", "users/"+w.user("ana")+"/revoke", nil)
	for _, c := range []*client{phone, tablet} {
		c.bye(patience, "REVOKED", true)
	}
	if took := time.Since(revoke); took > time.Second+500*time.Millisecond {
		t.Errorf("revoked users' sockets were closed after %v, want within a second", took)
	}
	cai := w.online("cai", "phone")
	disable := time.Now()
	w.srv.Admin(t, "PUT", "users/"+w.user("cai"), F{"disabled": true})
	cai.bye(patience, "REVOKED", true)
	if took := time.Since(disable); took > time.Second+500*time.Millisecond {
		t.Errorf("a disabled user's socket was closed after %v, want within a second", took)
	}
	w.dial().refuse("UNAUTHENTICATED", w.hello("cai", "phone", nil))
	httpRefusal(t, "a disabled user over HTTP", w.api("cai", "pull", F{}), 401, "UNAUTHENTICATED")
	w.srv.Admin(t, "PUT", "users/"+w.user("cai"), F{"disabled": false})
	w.online("cai", "phone").alive()
	ben.send(ab, "k", "the others go on")
}
