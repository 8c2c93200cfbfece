package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// launch starts a server for one test; it is killed at the end if it still runs.
func launch(t *testing.T, variables []string, args ...string) *serverProcess {
	t.Helper()
	return launchRole(t, "serve", variables, args...)
}

func launchRole(t *testing.T, role string, variables []string, args ...string) *serverProcess {
	t.Helper()
	dir := t.TempDir()
	p, err := startRole(role, dir, filepath.Join(dir, "server.err"), variables, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.end(syscall.SIGKILL, -1)
		}
		if strings.Contains(p.log(), "panic:") {
			t.Errorf("the server panicked:\n%s", p.log())
		}
	})
	return p
}

func (p *serverProcess) address() string {
	_, address, _ := strings.Cut(p.url, "://")
	return address
}

// unfinished opens a request whose body is announced and does not come, and
// waits until the server's handler has begun with it.
func (p *serverProcess) unfinished(t *testing.T) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	// The answer 100 Continue is sent when the handler begins to read the body.
	fmt.Fprintf(conn, "POST /api/msg/send HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer dev:u-ana\r\nContent-Type: application/json\r\n"+
		"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n", p.address())
	_ = conn.SetReadDeadline(time.Now().Add(readyTime))
	answers := bufio.NewReader(conn)
	interim, err := http.ReadResponse(answers, nil)
	if err != nil || interim.StatusCode != http.StatusContinue {
		t.Fatalf("the server answers %v, %v", interim, err)
	}
	return conn, answers
}

func TestASignalLetsWhatIsUnderWayFinish(t *testing.T) {
	p := launch(t, nil)
	conn, answers := p.unfinished(t)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the listener to close", func() bool {
		probe, err := net.Dial("tcp", p.address())
		if err == nil {
			_ = probe.Close()
		}
		return err != nil
	})
	body := `{"conv_id":1,"client_msg_id":"c","text":"x"}`
	fmt.Fprintf(conn, "%s%s", body, strings.Repeat(" ", 100-len(body)))
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatalf("the request under way got no answer: %v", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("it got %s, want 403: u-ana is in no conversation 1", resp.Status)
	}
	if err := p.wait(exitDone); err != nil {
		t.Error(err)
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	p := launch(t, nil)
	p.unfinished(t)
	began := time.Now()
	stop := make(chan struct{})
	sent := make(chan int)
	go func() {
		tick := time.NewTicker(sameSignal / 4)
		defer tick.Stop()
		for n := 0; ; n++ {
			_ = p.cmd.Process.Signal(syscall.SIGINT)
			select {
			case <-tick.C:
			case <-stop:
				sent <- n
				return
			}
		}
	}()
	err := p.wait(exitFailed)
	close(stop)
	if n := <-sent; err != nil {
		t.Errorf("after %d signals: %v", n, err)
	}
	if took := time.Since(began); took < sameSignal || took > drainTime/2 {
		t.Errorf("it took %v: signals within %v are one", took, sameSignal)
	}
}

func TestASilentRequestDoesNotHoldTheEndUp(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for the drain's own limit: run without -short")
	}
	p := launch(t, nil)
	p.unfinished(t)
	if err := p.end(syscall.SIGTERM, exitDone); err != nil {
		t.Error(err)
	}
	if !strings.Contains(p.log(), "requests were cut") {
		t.Errorf("the log does not say that a request was cut:\n%s", p.log())
	}
}

// A database that takes connections and says nothing is waited for; meanwhile health
// checks get their answers, and requests wait.
func TestAServerThatAwaitsItsDatabaseLivesAndIsNotReady(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	dir := t.TempDir()
	p, err := beginRole("serve", dir, filepath.Join(dir, "server.err"), []string{"IM_STORE=postgres://im:secret@" + mute.Addr().String() + "/im?sslmode=disable"}, "--listen", address)
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	eventually(t, "an answer of /livez", func() bool {
		answer, err := http.Get("http://" + address + "/livez")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	answer, err := http.Get("http://" + address + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(said), "the database is awaited") {
		t.Errorf("/readyz: %s %s", answer.Status, said)
	}
	hasty := http.Client{Timeout: 300 * time.Millisecond}
	if answer, err := hasty.Get("http://" + address + "/metrics"); err == nil {
		answer.Body.Close()
		t.Errorf("/metrics: %s", answer.Status)
	}
	if err := p.end(syscall.SIGTERM, 0); err != nil {
		t.Error(err)
	}
}

func TestAStoreInUseIsNotTouched(t *testing.T) {
	p := launch(t, nil)
	dir := p.cmd.Dir
	_, err := startServer(dir, filepath.Join(t.TempDir(), "second.err"), nil)
	if err == nil || !strings.Contains(err.Error(), "in use by another process: stop that one, or choose another path") {
		t.Fatalf("the second server says %v", err)
	}
	if strings.Count(strings.TrimSpace(err.Error()[strings.Index(err.Error(), "impart:"):]), "\n") > 0 {
		t.Errorf("more than one line: %v", err)
	}
	resp, err := http.Get(p.url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the first server is %s now", resp.Status)
	}
}

// waitFor polls until done holds. It is for what only another process knows.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(readyTime)
	for !done() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// writePair writes a self-signed certificate for 127.0.0.1 with this serial number.
func writePair(t *testing.T, certFile, keyFile string, serial int64) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "impart test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	cert := writePair(t, certFile, keyFile, 1)
	p := launch(t, []string{"IM_TLS_CERT=" + certFile, "IM_TLS_KEY=" + keyFile})
	if !strings.HasPrefix(p.url, "https://127.0.0.1:") {
		t.Fatalf("ready at %s", p.url)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get(p.url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.TLS.Version < tls.VersionTLS12 {
		t.Errorf("%s, TLS %x", resp.Status, resp.TLS.Version)
	}
	_, err = tls.Dial("tcp", p.address(), &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11})
	if err == nil {
		t.Error("TLS 1.1 is taken")
	}
	transport.CloseIdleConnections()
	if err := p.end(syscall.SIGTERM, exitDone); err != nil {
		t.Error(err)
	}
}

func TestARenewedCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, certFile, keyFile, 1)
	var log bytes.Buffer
	c, err := renewedPair(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	serial := func() int64 {
		t.Helper()
		leaf, err := x509.ParseCertificate(c.get().Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.SerialNumber.Int64()
	}
	writePair(t, certFile, keyFile, 2)
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(certFile, later, later); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != 1 {
		t.Errorf("serial %d within %v of the last look, want 1", got, filesCheck)
	}
	c.checked = time.Time{}
	if got := serial(); got != 2 {
		t.Errorf("serial %d after the renewal, want 2", got)
	}
	// Half a renewal: the old pair goes on, and the log says so.
	if err := os.WriteFile(certFile, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.checked = time.Time{}
	if got := serial(); got != 2 || !strings.Contains(log.String(), "the old one stays") {
		t.Errorf("serial %d with a broken file, want 2; the log is %q", got, log.String())
	}
}

func TestAPairThatDoesNotFitIsWrongUsage(t *testing.T) {
	dir := t.TempDir()
	writePair(t, filepath.Join(dir, "a.pem"), filepath.Join(dir, "a.key"), 1)
	writePair(t, filepath.Join(dir, "b.pem"), filepath.Join(dir, "b.key"), 2)
	_, err := tlsConfig(&config{TLSCert: filepath.Join(dir, "a.pem"), TLSKey: filepath.Join(dir, "b.key")}, slog.New(slog.DiscardHandler))
	if _, usage := err.(usageError); !usage || !strings.Contains(err.Error(), "IM_TLS_CERT and IM_TLS_KEY") {
		t.Errorf("got %v", err)
	}
}

func TestTheGateClosesConnectionsPastItsLimit(t *testing.T) {
	gate := &connGate{limit: 1}
	first, second := &closing{}, &closing{}
	gate.state(first, http.StateNew)
	gate.state(second, http.StateNew)
	if first.closed || !second.closed {
		t.Fatalf("closed: first %v, second %v", first.closed, second.closed)
	}
	gate.state(second, http.StateClosed)
	gate.state(first, http.StateHijacked)
	third := &closing{}
	gate.state(third, http.StateNew)
	if third.closed {
		t.Error("a connection that became a WebSocket still counts")
	}
}

// closing is a connection that only remembers that it was closed.
type closing struct {
	net.Conn
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

func TestConnectionsShareTheDescriptors(t *testing.T) {
	gateway, web, err := connectionLimits(0)
	limit, limitErr := descriptorLimit()
	if err != nil || limitErr != nil || gateway < 1 || web < 1 || gateway+web > limit {
		t.Errorf("%d for the gateway, %d for HTTP, of %d (%v, %v)", gateway, web, limit, err, limitErr)
	}
	if _, _, err := connectionLimits(limit); err == nil {
		t.Error("as many connections as descriptors are taken")
	}
	if got, _, err := connectionLimits(1); got != 1 || err != nil {
		t.Errorf("one connection gives %d, %v", got, err)
	}
}
