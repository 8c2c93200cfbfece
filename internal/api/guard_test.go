package api

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/auth"
)

const aSend = `{"conv_id":"c-ab","client_msg_id":"m","text":"hi"}`

// samples are one request of every operation.
func samples() []request {
	return []request{
		{method: "POST", path: "/api/msg/send", body: aSend},
		{method: "POST", path: "/api/msg/recall", body: `{"conv":"c-ab","seq":1,"cmid":"r"}`},
		{method: "POST", path: "/api/msg/sync", body: `{"conv":"c-ab","after":0}`},
		{method: "POST", path: "/api/msg/pull", body: `{}`},
		{method: "POST", path: "/api/msg/ack", body: `{"conv":"c-ab","seq":1}`},
		{method: "POST", path: "/api/msg/read", body: `{"conv":"c-ab","seq":1}`},
		{method: "POST", path: "/api/msg/who", body: `{"conv":"c-ab","seq":1}`},
		{method: "PUT", path: "/admin/v1/users/u-x", body: `{"disabled":false}`},
		{method: "GET", path: "/admin/v1/users/u-ana"},
		{method: "POST", path: "/admin/v1/users/u-x/revoke"},
		{method: "PUT", path: "/admin/v1/conversations/c-x", body: `{"kind":"group"}`},
		{method: "GET", path: "/admin/v1/conversations/c-ab"},
		{method: "PUT", path: "/admin/v1/conversations/c-ab/members/u-x", body: `{"role":"member"}`},
		{method: "DELETE", path: "/admin/v1/conversations/c-ab/members/u-x"},
		{method: "POST", path: "/admin/v1/conversations/c-ab/messages", body: `{"sender":"system","cmid":"s","body":"hi"}`},
		{method: "GET", path: "/admin/v1/conversations/c-ab/events/1/delivery"},
		{method: "GET", path: "/admin/v1/devices/d-ana"},
		{method: "GET", path: "/admin/v1/epoch"},
		{method: "POST", path: "/admin/v1/epoch"},
		{method: "GET", path: "/livez"},
		{method: "GET", path: "/readyz"},
		{method: "GET", path: "/metrics"},
		{method: "GET", path: "/openapi.json"},
		{method: "GET", path: "/openapi.yaml"},
	}
}

func TestTheSamplesAreEveryRoute(t *testing.T) {
	w := newWorld(t, nil)
	seen := map[string]bool{}
	for _, sample := range samples() {
		at, _ := w.server.paths.find(sample.path)
		if at == nil {
			t.Fatalf("nothing at %s", sample.path)
		}
		seen[sample.method+" "+at.pattern] = true
	}
	for _, rt := range w.server.routes() {
		if !seen[rt.name()] {
			t.Errorf("no sample of %s", rt.name())
		}
	}
	if len(seen) != len(w.server.routes()) {
		t.Errorf("%d samples of %d routes", len(seen), len(w.server.routes()))
	}
}

func TestNoRouteOpensWithoutItsToken(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.AdminToken = "the-admin-token" })
	closed := 0
	for _, sample := range samples() {
		switch {
		case strings.HasPrefix(sample.path, "/api/"):
			for _, options := range [][]option{
				{}, {header("Authorization", "")}, {header("Authorization", "Bearer")}, {header("Authorization", "Bearer u-ana")},
				{header("Authorization", "Basic ZGV2OnUtYW5h")}, {as("system")}, {as("u-ana"), as("u-ben")}, {header("Authorization", "Bearer the-admin-token")},
				{header("Cookie", "token=dev:u-ana")}, {header("X-Authorization", "Bearer dev:u-ana")},
			} {
				got := w.do(sample.method, sample.path, sample.body, options...).fails(impart.Unauthenticated)
				if !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer") {
					t.Errorf("%s: 401 without WWW-Authenticate", got.what)
				}
			}
			closed++
		case strings.HasPrefix(sample.path, "/admin/"):
			for _, options := range [][]option{
				{}, {as("u-ana")}, {header("Authorization", "Bearer the-admin-toke")}, {header("Authorization", "Bearer the-admin-token2")},
				{header("Authorization", "the-admin-token")}, {header("Authorization", "Bearer ")},
			} {
				w.do(sample.method, sample.path, sample.body, options...).fails(impart.Unauthenticated)
			}
			closed++
		}
	}
	if closed != 19 {
		t.Errorf("tried %d closed routes", closed)
	}
	// The guard comes before the path's secrets: known and unknown look the same.
	a, b := w.do("GET", "/admin/v1/users/u-ana", ""), w.do("GET", "/admin/v1/users/u-nobody", "")
	if a.body != b.body || a.status != b.status {
		t.Errorf("without a token one can tell users apart: %s and %s", a.body, b.body)
	}
	w.do("PUT", "/admin/v1/users/u-ana", "", header("Authorization", "Bearer the-admin-token")).wants(http.StatusOK)
}

func TestTheAdminAPIIsOpenToThisMachineInDevLoginOnly(t *testing.T) {
	dev := newWorld(t, nil)
	dev.do("PUT", "/admin/v1/users/u-ana", "").wants(http.StatusOK)
	dev.do("PUT", "/admin/v1/users/u-ana", "", fromAddress("[::1]:5")).wants(http.StatusOK)
	for _, from := range []string{"192.168.1.7:5", "10.0.0.1:1", "", "[fe80::1%eth0]:9"} {
		dev.do("PUT", "/admin/v1/users/u-ana", "", fromAddress(from)).fails(impart.Unauthenticated)
	}
	dev.do("PUT", "/admin/v1/users/u-ana", "", fromAddress("192.168.1.7:5"), header("X-Forwarded-For", "127.0.0.1")).fails(impart.Unauthenticated)

	closed := newWorld(t, func(c *Config) { c.AdminOpen = false })
	closed.do("PUT", "/admin/v1/users/u-ana", "").fails(impart.Unauthenticated)

	verifier, err := auth.New(t.Context(), auth.Config{HMACSecret: []byte(strings.Repeat("s", 32))})
	if err != nil {
		t.Fatal(err)
	}
	signed := newWorld(t, func(c *Config) { c.Auth = verifier }) // AdminOpen is set, and means nothing here
	signed.do("PUT", "/admin/v1/users/u-ana", "").fails(impart.Unauthenticated)
}

func TestSignedTokens(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	verifier, err := auth.New(t.Context(), auth.Config{HMACSecret: secret})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) { c.Auth, c.AdminToken = verifier, "admin" })
	w.do("PUT", "/admin/v1/conversations/c-ab", `{"kind":"group","members":["u-ana","u-ben"]}`, header("Authorization", "Bearer admin")).wants(http.StatusCreated)
	token := func(method jwt.SigningMethod, key any, user string, life time.Duration) option {
		text, err := jwt.NewWithClaims(method, jwt.MapClaims{"sub": user, "exp": time.Now().Add(life).Unix()}).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return header("Authorization", "Bearer "+text)
	}
	w.api("send", aSend, token(jwt.SigningMethodHS256, secret, "u-ana", time.Hour)).wants(http.StatusOK)
	w.api("send", aSend, token(jwt.SigningMethodHS256, secret, "u-eve", time.Hour)).fails(impart.NotMember)
	for name, forged := range map[string]option{
		"expired":    token(jwt.SigningMethodHS256, secret, "u-ana", -time.Hour),
		"wrong key":  token(jwt.SigningMethodHS256, []byte(strings.Repeat("t", 32)), "u-ana", time.Hour),
		"unsigned":   token(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "u-ana", time.Hour),
		"dev":        as("u-ana"),
		"the system": token(jwt.SigningMethodHS256, secret, "system", time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			for _, sample := range samples()[:7] {
				w.do(sample.method, sample.path, sample.body, forged, on("d-ana")).fails(impart.Unauthenticated)
			}
		})
	}
	// Away from dev login the server answers under every name it is given.
	w.api("send", aSend, token(jwt.SigningMethodHS256, secret, "u-ana", time.Hour), toHost("im.example.org")).wants(http.StatusOK)
}

func TestATokenInTheAddressIsRefusedAndNeverLogged(t *testing.T) {
	w := newWorld(t, nil)
	for _, query := range []string{"token=dev:u-ana", "access_token=s3cr3t", "x=dev:u-ana", "TOKEN=s3cr3t"} {
		for _, path := range []string{"/api/msg/send", "/admin/v1/epoch", "/v1/ws", "/readyz"} {
			method, body := "POST", aSend
			if path == "/v1/ws" || path == "/readyz" {
				method, body = "GET", ""
			}
			got := w.do(method, path+"?"+query, body, as("u-ana")).fails(impart.Unauthenticated).contains("address")
			if strings.Contains(got.body, "s3cr3t") {
				t.Errorf("the answer repeats it: %s", got.body)
			}
		}
	}
	w.api("send", aSend, header("Authorization", "Bearer s3cr3t-wrong")).fails(impart.Unauthenticated)
	w.api("send", `{"text":"s3cr3t`, as("u-ana"))
	w.do("GET", "/s3cr3t?s3cr3t", "", header("User-Agent", "s3cr3t"))
	seen := w.log.String() + w.do("GET", "/metrics", "").body
	if strings.Contains(seen, "s3cr3t") || strings.Contains(seen, "dev:u-ana") {
		t.Errorf("a token or a body is in the log or the metrics:\n%s", seen)
	}
	if strings.Count(w.log.String(), "http request") < 19 {
		t.Errorf("the requests are not logged at all:\n%s", w.log)
	}
}

func TestPagesOfOtherOriginsAreRefusedEverywhere(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Origins = auth.Origins{"https://chat.example.org"} })
	for _, sample := range samples() {
		for _, origin := range []string{"https://evil.example", "null", "http://127.0.0.1:8081", "https://127.0.0.1:8080", "http://127.0.0.1:8080.evil.example", "https://chat.example.org.evil.example"} {
			got := w.do(sample.method, sample.path, sample.body, as("u-ana"), on("d"), header("Origin", origin)).wants(http.StatusForbidden)
			if got.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s from %s: and yet it may read the answer", got.what, origin)
			}
		}
		w.do(sample.method, sample.path, sample.body, as("u-ana"), on("d"), header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "no-cors")).
			wants(http.StatusForbidden)
	}
	w.do("GET", "/v1/ws", "", header("Origin", "https://evil.example")).wants(http.StatusForbidden)
	w.do("GET", "/livez", "", header("Origin", "http://127.0.0.1:8080")).wants(http.StatusOK)
}

// A name that its owner made point to 127.0.0.1 is still sent as Host.
func TestDevLoginAnswersUnderLoopbackNamesOnly(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Web = pages("<h1>hello</h1>") })
	paths := append(samples(), request{method: "GET", path: "/"}, request{method: "GET", path: "/v1/ws"})
	for _, sample := range paths {
		for _, host := range []string{"evil.example:8080", "127.0.0.1.evil.example", "", "192.168.0.1:8080"} {
			w.do(sample.method, sample.path, sample.body, as("u-ana"), on("d"), toHost(host)).wants(http.StatusForbidden)
		}
	}
	for _, host := range []string{"localhost:8080", "[::1]:8080", "127.0.0.1"} {
		w.do("GET", "/livez", "", toHost(host)).wants(http.StatusOK)
		w.do("GET", "/", "", toHost(host)).wants(http.StatusOK)
	}
}

func pages(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, text)
	})
}

// Forms and beacons of other sites can send anything but JSON without asking.
func TestBodiesAreDeclaredAsJSON(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("c-ab", "u-ana", "u-ben")
	for _, sample := range samples() {
		if sample.body == "" {
			continue
		}
		for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain; application/json",
			"application/jsonp", "application/json, text/plain", "application/json; charset=utf-16", "json", "*/*"} {
			w.do(sample.method, sample.path, sample.body, as("u-ana"), on("d"), without("Content-Type"), header("Content-Type", contentType)).
				wants(http.StatusUnsupportedMediaType)
		}
		w.do(sample.method, sample.path, sample.body, as("u-ana"), on("d"), header("Content-Type", "application/json")).wants(http.StatusUnsupportedMediaType)
	}
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"} {
		w.api("send", aSend, as("u-ana"), without("Content-Type"), header("Content-Type", contentType)).wants(http.StatusOK)
	}
}

func TestListedPagesMayUseTheSendAPIAlone(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Origins = auth.Origins{"https://chat.example.org"} })
	w.conversation("c-ab", "u-ana", "u-ben")
	origin := header("Origin", "https://chat.example.org")
	ask := header("Access-Control-Request-Method", "POST")

	got := w.do("OPTIONS", "/api/msg/send", "", origin, ask).wants(http.StatusNoContent)
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": "https://chat.example.org", "Access-Control-Allow-Methods": "POST",
		"Access-Control-Allow-Headers": "Authorization, Content-Type, Impart-Device, Impart-Install", "Access-Control-Allow-Credentials": "", "Vary": "Origin",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), want)
		}
	}
	sent := w.api("send", aSend, as("u-ana"), origin).wants(http.StatusOK)
	if sent.header.Get("Access-Control-Allow-Origin") != "https://chat.example.org" {
		t.Error("the page may send and may not read the answer")
	}
	refused := w.api("send", `{}`, as("u-ana"), origin).fails(impart.BadFrame)
	if refused.header.Get("Access-Control-Allow-Origin") == "" {
		t.Error("the page may not read an error")
	}
	w.do("OPTIONS", "/api/msg/send", "", header("Origin", "https://evil.example"), ask).wants(http.StatusForbidden)
	for _, path := range []string{"/admin/v1/epoch", "/metrics"} {
		if got := w.do("OPTIONS", path, "", origin, ask).wants(http.StatusMethodNotAllowed); got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s is open to pages: %v", path, got.header)
		}
	}
}

func TestMethodsThatAPathDoesNotTake(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("c-ab", "u-ana", "u-ben")
	before := w.do("GET", "/admin/v1/conversations/c-ab", "").body
	for _, sample := range samples() {
		at, _ := w.server.paths.find(sample.path)
		methods, path := at.routes, sample.path
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "post", "PROPFIND", "get"} {
			if methods[method] != nil || method == "HEAD" && methods["GET"] != nil {
				continue
			}
			got := w.do(method, path, "", as("u-ana"), on("d"), header("X-HTTP-Method-Override", "POST"), header("X-Method-Override", "DELETE")).
				wants(http.StatusMethodNotAllowed)
			for taken := range methods {
				if !strings.Contains(got.header.Get("Allow"), taken) {
					t.Errorf("%s: Allow is %q, %s is missing", got.what, got.header.Get("Allow"), taken)
				}
			}
		}
	}
	w.do("HEAD", "/livez", "").wants(http.StatusOK)
	if after := w.do("GET", "/admin/v1/conversations/c-ab", "").body; after != before {
		t.Errorf("a refused method did something: %s, then %s", before, after)
	}
}

func TestPathsThatAreNotThere(t *testing.T) {
	web := 0
	w := newWorld(t, func(c *Config) {
		c.Web = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { web++; _, _ = io.WriteString(rw, "page") })
	})
	for _, path := range []string{
		"/api", "/api/", "/api/msg/send/", "/api/msg/nothing", "/api/msg/%73end/x", "/api//msg/send", "/api/msg/../msg/send", "/api/./msg/send", "/api/msg/%73end",
		"/admin", "/admin/v1/users/", "/admin/v1/users/a/b", "/admin/v1/conversations/c/members/", "/admin/v1//epoch", "/v1/ws/", "/v1/wsx", "/v1/", "/api/msg/send%2F", "/v1/./ws",
	} {
		w.do("POST", path, aSend, as("u-ana")).fails(impart.NotFound)
	}
	if web > 0 {
		t.Errorf("the web pages answered %d paths of the API", web)
	}
	before := web
	for _, path := range []string{"/", "/index.html", "/assets/app.js", "/apix", "/v1beta", "/a/../b", "/livez/"} {
		w.do("GET", path, "").wants(http.StatusOK)
	}
	if web != before+7 {
		t.Errorf("the web pages answered %d of 7 paths", web-before)
	}
	// Pages may be looked at by following a link, and loaded by nobody else's script: the policy says so.
	if got := w.do("GET", "/", "", header("Origin", "https://evil.example")).wants(http.StatusOK); strings.Contains(got.header.Get("Content-Security-Policy"), "unsafe") {
		t.Errorf("policy %s", got.header.Get("Content-Security-Policy"))
	}
	newWorld(t, nil).do("GET", "/", "").fails(impart.NotFound)
}

func TestSecureConnectionsStaySecure(t *testing.T) {
	w := newWorld(t, nil)
	r := httptest.NewRequest("GET", "https://localhost/livez", nil)
	r.TLS = &tls.ConnectionState{}
	rec := httptest.NewRecorder()
	w.server.ServeHTTP(rec, r)
	if rec.Code != 200 || rec.Header().Get("Strict-Transport-Security") == "" {
		t.Errorf("%d %v", rec.Code, rec.Header())
	}
	if got := w.do("GET", "/livez", ""); got.header.Get("Strict-Transport-Security") != "" {
		t.Error("plain HTTP demands TLS, which nobody has set up")
	}
}

func TestALyingLengthIsRefusedBeforeReading(t *testing.T) {
	w := newWorld(t, nil)
	w.api("send", aSend, as("u-ana"), func(r *request) { r.length = 1 << 40 }).fails(impart.TooLarge)
	w.api("send", strings.Repeat(" ", maxRequest+1), as("u-ana"), func(r *request) { r.length = -1 }).fails(impart.TooLarge)
	w.do("GET", "/livez", "x", without("Content-Type")).fails(impart.BadFrame)
}
