package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/impart-im/impart/internal/fault"
)

// drainTime is how long a shutdown waits for requests and connections; what is
// left then is cut. The process has ended by exitTime after the signal.
const (
	drainTime = 7 * time.Second
	exitTime  = 9500 * time.Millisecond
)

// sameSignal is the time within which a second signal is taken for the first:
// one Ctrl-C reaches a process more than once when a wrapper passes it on too.
const sameSignal = 250 * time.Millisecond

func serveCommand(env streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: "Runs everything in one process. With no settings it keeps messages in ./impart-data, listens on 127.0.0.1:8080, and lets anybody on this machine sign in as anybody, to try it out.\n\n" +
			"Each flag is also a variable (--sweep-ms is IM_SWEEP_MS) and a key of a YAML file (sweep_ms). Flags win over variables, variables over the file.\n\n" +
			"Once it can serve it prints one line, `ready http://ADDRESS`. SIGTERM or Ctrl-C says goodbye to every client, lets commits finish, and ends within 10 seconds; a second one ends at once.",
		Example: "# try it: two demo users on http://127.0.0.1:8080\nimpart serve\n\n" +
			"# for real: tokens signed with a secret, TLS ended by a proxy in front\nIM_AUTH_HMAC_SECRET=… IM_ADMIN_TOKEN=… impart serve --listen :8080 --allow-plaintext\n\n" +
			"# with a file of settings\nimpart serve --config impart.yaml",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd, env, roleServe, false) },
	}
	addSettingsOf(cmd, roleServe)
	return cmd
}

// runServe is the command; naive is what `impart bench` compares with.
func runServe(cmd *cobra.Command, env streams, as role, naive bool) error {
	// Before anything is opened: a signal during the start is not lost.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	l, err := loadAs(cmd, env, as)
	if err != nil {
		return err
	}
	l.config.noGroupCommit = naive
	return serve(cmd.Context(), l, env, signals)
}

// serve runs a server until the first signal, then drains it.
func serve(ctx context.Context, l *loaded, env streams, signals <-chan os.Signal) error {
	c := l.config
	c.GatewayID = c.gatewayID() // one name from here on
	lines, closeLog := newLogger(c, env.stderr)
	defer closeLog()
	log := lines.With(c.logKey(), c.gatewayID())
	for _, name := range l.unknown {
		log.Warn(unknownNote(name))
	}
	for _, name := range l.unused() {
		log.Warn("a setting has no effect on this role", "setting", name, "role", string(c.role))
	}
	if err := fault.Set(c.Fault); err != nil {
		return usageError{err}
	}
	gatewayConns, httpConns, err := connectionLimits(c.MaxConns)
	if err != nil {
		return err
	}
	secure, err := tlsConfig(c, log)
	if err != nil {
		return err
	}
	ln, hop, err := listeners(c)
	if err != nil {
		return err
	}
	warnOfDisk(c, log)
	front := newDoor(c)
	s := &server{log: log, http: newHTTPServer(front, httpConns, log), secure: secure != nil}
	s.http.TLSConfig = secure
	s.start(ln)
	p, err := startParts(ctx, c, log, gatewayConns, signals)
	if err != nil {
		return errors.Join(err, s.abandon(), hop.Close())
	}
	if p == nil {
		log.Info("stopped before it was ready")
		return errors.Join(s.abandon(), hop.Close())
	}
	s.parts = p
	if c.Pprof != "" {
		if s.profiles, err = profiles(c.Pprof, log); err != nil {
			return errors.Join(err, s.abandon(), hop.Close(), p.close())
		}
	}
	front.open(p.handler)
	s.startHop(hop)
	banner(c, s.url(ln), env)
	log.Info("serving", append([]any{"pid", os.Getpid(), "address", s.url(ln), "version", buildInfo().String()}, c.told(gatewayConns)...)...)
	fmt.Fprintf(env.stdout, "ready %s%s\n", s.url(ln), hop)
	stop := make(chan struct{})
	var trimming sync.WaitGroup
	trimming.Go(func() { trim(stop) })
	defer trimming.Wait()
	defer close(stop)
	return s.wait(signals)
}

// startParts makes the parts of a server, unless a signal comes first: then there
// are none.
func startParts(ctx context.Context, c *config, log *slog.Logger, conns int, signals <-chan os.Signal) (*parts, error) {
	ctx, cancel := context.WithCancel(ctx)
	type outcome struct {
		parts *parts
		err   error
	}
	made := make(chan outcome, 1)
	go func() {
		p, err := newParts(ctx, c, log, conns)
		made <- outcome{p, err}
	}()
	select {
	case o := <-made:
		if o.parts == nil {
			cancel()
			return nil, o.err
		}
		// Some parts work in the background for as long as ctx lasts.
		o.parts.closers = slices.Insert(o.parts.closers, 0, func() error { cancel(); return nil })
		return o.parts, nil
	case got := <-signals:
		log.Info("stopping", "signal", got.String())
		cancel()
	}
	if o := <-made; o.parts != nil {
		return nil, o.parts.close()
	}
	return nil, nil // that it was called off is no failure
}

// banner tells a newcomer where to look, and everybody what the dev login is.
func banner(c *config, url string, env streams) {
	if !c.Auth.devLogin() || c.role == roleLogic {
		return
	}
	fmt.Fprintf(env.stderr, "\n  Impart is up. Open %s in a browser: two demo users are waiting to chat.\n"+
		"  To see what a crash costs, kill this server, and no other, with:  kill -9 %d\n"+
		"  Open dev login: anybody on this machine may sign in as anybody, and administer.\n"+
		"  For real use set IM_AUTH_HMAC_SECRET, IM_AUTH_PUBLIC_KEY or IM_AUTH_JWKS_URL (impart serve --help).\n\n", url, os.Getpid())
}

// warnOfDisk says what the doctor says of a store in memory or on a network. It
// refuses nothing: for a try, and for tests, such a store is good enough.
func warnOfDisk(c *config, log *slog.Logger) {
	if onServer(c.Store) || c.role == roleGateway {
		return // its disk is elsewhere
	}
	d, err := diskOf(existing(filepath.Dir(storePath(c.Store))))
	if err != nil {
		return // not known on this system; the doctor says so
	}
	if f := kindFinding(d.kind); f.Verdict == fail {
		log.Warn("the store is where sent messages can be lost", "file_system", d.kind, "advice", f.Advice)
	}
}

// connectionLimits shares the descriptors between WebSockets and plain HTTP.
func connectionLimits(maxConns int) (gatewayConns, httpConns int, err error) {
	limit, err := descriptorLimit()
	if err != nil {
		limit = 10_000 // unknown here; a failing accept is survived
	}
	room := connectionRoom(limit)
	httpConns = max(min(room/4, 10_000), 1)
	gatewayConns = max(room-httpConns, 1)
	if maxConns == 0 {
		return gatewayConns, httpConns, nil
	}
	if maxConns > gatewayConns {
		return 0, 0, usagef("IM_MAX_CONNS (--max-conns): %d should be at most %d with a limit of %d open files; raise the hard limit (ulimit -Hn, LimitNOFILE)",
			maxConns, gatewayConns, limit)
	}
	return maxConns, httpConns, nil
}

// server is a running server.
type server struct {
	*parts
	log      *slog.Logger
	http     *http.Server
	secure   bool         // TLS; net/http itself sets http.TLSConfig in any case
	profiles *http.Server // nil without IM_PPROF
	served   chan error   // gets what ended http.Serve
	hopped   chan error   // gets what ended serving gateways; nil unless this is a logic node
}

// start answers at ln.
func (s *server) start(ln net.Listener) {
	s.served = make(chan error, 1)
	go func() {
		if s.secure {
			s.served <- s.http.ServeTLS(ln, "", "")
		} else {
			s.served <- s.http.Serve(ln)
		}
	}()
}

// startHop serves gateways, if this is a logic node.
func (s *server) startHop(hop hopListener) {
	if s.rpc != nil {
		s.hopped = make(chan error, 1)
		go func() { s.hopped <- s.rpc.Serve(hop.Listener) }()
	}
}

// abandon ends a start that leads to nothing: whoever waits for it is cut off.
func (s *server) abandon() error {
	err := s.http.Close()
	if ended := <-s.served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// url is the address as the ready line has it.
func (s *server) url(ln net.Listener) string {
	scheme := "http"
	if s.secure {
		scheme = "https"
	}
	return scheme + "://" + ln.Addr().String()
}

// wait serves until a signal, and drains.
func (s *server) wait(signals <-chan os.Signal) error {
	select {
	case got := <-signals:
		s.log.Info("stopping", "signal", got.String())
	case err := <-s.served:
		return errors.Join(fmt.Errorf("the listener failed: %w", err), s.close())
	case err := <-s.hopped:
		return errors.Join(fmt.Errorf("the listener for gateways failed: %w", err), s.close())
	}
	// That the process ends rests on nothing that could itself hang.
	late := time.AfterFunc(exitTime, func() { os.Exit(exitFailed) })
	defer late.Stop()
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	began := time.Now()
	for {
		select {
		case err := <-stopped:
			return err
		case <-signals:
			if time.Since(began) > sameSignal {
				s.log.Warn("a second signal: ending at once")
				return errSilent
			}
		}
	}
}

// stop says goodbye to every client, lets what is under way finish, and closes
// every part.
func (s *server) stop() error {
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	requests := make(chan error, 1)
	go func() { requests <- s.http.Shutdown(ctx) }()
	if s.gateway != nil {
		if err := s.gateway.Drain(ctx); err != nil {
			s.log.Warn("not every client was said goodbye to", "error", err)
		}
	}
	if s.rpc != nil {
		s.rpc.Drain(ctx)
	}
	if err := <-requests; err != nil {
		s.log.Warn("requests were cut", "error", err)
		_ = s.http.Close()
	}
	<-s.served
	if s.profiles != nil {
		_ = s.profiles.Close()
	}
	err := s.close()
	s.log.Info("stopped")
	return err
}
