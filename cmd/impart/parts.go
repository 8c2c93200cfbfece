package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/api"
	"github.com/impart-im/impart/internal/auth"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/bus/pgbus"
	"github.com/impart-im/impart/internal/gateway"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/redis"
	"github.com/impart-im/impart/internal/rpc"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/sqlstore"
	"github.com/impart-im/impart/web"
)

// parts are the pieces of one server, in the order in which they are made.
type parts struct {
	store    store.Store
	redis    *redis.Client  // nil without one
	pending  *redis.Pending // a gateway's, in Redis; nil without one
	bus      bus.Bus
	verifier *auth.Verifier
	rules    rules
	gateway  *gateway.Gateway // nil at a logic node
	rpc      *rpc.Server      // only at a logic node
	client   *rpc.Client      // only at a gateway of its own
	handler  http.Handler

	// origin is this process among those of one store, for as long as it runs. The
	// name of a gateway would not do: an operator may give it twice.
	origin string
	shared bool // other nodes may serve the store, which has a clock of its own
	// replication is what the operator vouches for.
	replication string
	settings    atomic.Pointer[[]store.Setting] // what durability rests on, as last read
	offset      atomic.Int64                    // of this machine's clock from the store's, in ms
	standby     atomic.Pointer[store.Standby]   // what commits wait for, as last read; nil if that is not known
	draining    atomic.Bool
	metrics     *prometheus.Registry // all of this process
	closers     []func() error       // in the order of making; closed from the end
}

// rules are the two ports: of this process, or of logic nodes.
type rules interface {
	impart.Logic
	impart.Admin
}

// newParts makes every part of the process's role. On an error it closes what it had
// made.
func newParts(ctx context.Context, c *config, log *slog.Logger, conns int) (_ *parts, err error) {
	p := &parts{origin: randomName(), replication: c.Replication, shared: c.role == roleGateway || onServer(c.Store)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	registry := prometheus.NewRegistry()
	p.metrics = registry
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), logDropped)
	if c.role == roleGateway {
		err = p.openClient(c, log, registry)
	} else {
		err = p.openStore(ctx, c, log)
	}
	if err != nil {
		return nil, err
	}
	if err := p.openRedis(ctx, c, log, registry); err != nil {
		return nil, err
	}
	if err := p.openBus(ctx, c, log, registry); err != nil {
		return nil, err
	}
	if c.role != roleGateway {
		if err := p.openRules(c, log, registry); err != nil {
			return nil, err
		}
	}
	if c.role == roleLogic {
		err = p.openServer(c, log, registry)
	} else {
		err = p.openEdge(ctx, c, log, registry, conns)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// openRules starts the rules on the store and the bus.
func (p *parts) openRules(c *config, log *slog.Logger, registry *prometheus.Registry) error {
	p.watch(log, registry)
	service, err := logic.New(c.logicConfig(p, log, registry))
	if err != nil {
		return err
	}
	p.rules = service
	p.closers = append(p.closers, service.Close)
	return nil
}

// openEdge starts what clients reach.
func (p *parts) openEdge(ctx context.Context, c *config, log *slog.Logger, registry *prometheus.Registry, conns int) error {
	authConfig, err := c.Auth.verifierConfig(log)
	if err != nil {
		return err
	}
	if p.verifier, err = auth.New(ctx, authConfig); err != nil {
		return err
	}
	p.closers = append(p.closers, func() error { p.verifier.Close(); return nil })
	settings := c.gatewayConfig(p, log, registry, conns)
	if p.gateway, err = judged(ctx, log, func() (*gateway.Gateway, error) { return gateway.New(settings) }); err != nil {
		return err
	}
	p.closers = append(p.closers, p.gateway.Close)
	p.handler = api.New(c.apiConfig(p, log, registry))
	return nil
}

// openStore opens the store and refuses one that cannot keep its word.
func (p *parts) openStore(ctx context.Context, c *config, log *slog.Logger) error {
	opts := sqlstore.Options{
		Log: log, DedupRetention: c.DedupRetention > 0, NoGroupCommit: c.noGroupCommit,
		Notify: c.busKind() == "postgres", Node: p.origin, Pooled: c.ListenStore != "",
	}
	var opened store.Store
	open := func(ctx context.Context) (err error) {
		opened, err = sqlstore.Open(ctx, c.Store, opts)
		return err
	}
	if onServer(c.Store) {
		if err := awaiting(ctx, log, c.Store, open); err != nil {
			return databaseError("IM_STORE (--store)", c.Store, err)
		}
	} else if err := open(ctx); err != nil {
		return storeError(c.Store, err)
	}
	p.store = opened
	p.closers = append(p.closers, opened.Close)
	settings, err := opened.Settings(ctx)
	if err != nil {
		return fmt.Errorf("the store does not tell its settings: %w", err)
	}
	unsafe := unsafeOf(settings)
	settings = vouched(settings, c.Replication)
	p.settings.Store(&settings)
	if len(unsafe) == 0 && len(unsafeOf(settings)) > 0 {
		// No reason not to start: right after a failover no standby may be there yet.
		log.Error("IM_REPLICATION=sync does not count: no commit waits for a standby, so a failover would raise the epoch")
	}
	for _, s := range unsafe {
		if !c.AllowUnsafe {
			return fmt.Errorf("the store's %s is %s and should be %s: %s; change it, or set IM_ALLOW_UNSAFE_DURABILITY=true to lose messages knowingly",
				s.Name, s.Value, s.Want, s.Why)
		}
		log.Error("the store can lose messages that were answered with sent", "setting", s.Name, "value", s.Value, "want", s.Want)
	}
	return nil
}

// openBus opens what carries wake-ups: between the nodes of a database, over Redis, or
// inside this process.
func (p *parts) openBus(ctx context.Context, c *config, log *slog.Logger, registry prometheus.Registerer) error {
	switch c.busKind() {
	case "local":
		p.bus = bus.NewLocal()
		p.closers = append(p.closers, p.bus.Close)
		return nil
	case "redis":
		p.openRedisBus(ctx, log, registry)
		return nil
	}
	if c.role != roleGateway {
		if err := sameDatabase(ctx, c); errors.Is(err, errElsewhere) {
			return usageError{err}
		}
	}
	cfg := pgbus.Config{DSN: c.listenStore(), Origin: p.origin, WakesInStore: true, Log: log, Metrics: registry}
	if s, is := p.store.(*sqlstore.Store); is {
		cfg.Vouch.Query, cfg.Vouch.Judge = s.Vouch()
	}
	err := awaiting(ctx, log, cfg.DSN, func(ctx context.Context) error {
		opened, err := pgbus.Open(ctx, cfg)
		if err != nil {
			return p.orStandby(ctx, err)
		}
		p.bus = opened
		p.closers = append(p.closers, opened.Close)
		return nil
	})
	if err == nil {
		return nil
	}
	setting := "IM_LISTEN_STORE (--listen-store)"
	if c.ListenStore == "" {
		setting = "IM_STORE (--store), for LISTEN"
	}
	return databaseError(setting, cfg.DSN, err)
}

// storeError says in one line what to do about a store that does not open.
func storeError(dsn string, err error) error {
	path := storePath(dsn)
	text := err.Error()
	switch {
	case inUse(err):
		return fmt.Errorf("IM_STORE (--store): %s is in use by another process: stop that one, or choose another path", path)
	case errors.Is(err, os.ErrPermission) || strings.Contains(text, "readonly") || strings.Contains(text, "unable to open"):
		return fmt.Errorf("IM_STORE (--store): %s cannot be written: check who owns it, or choose another path (%w)", path, err)
	case strings.Contains(text, "not a database") || strings.Contains(text, "malformed"):
		return fmt.Errorf("IM_STORE (--store): %s is damaged or no database of this server: restore a backup, or choose another path (%w)", path, err)
	}
	return fmt.Errorf("IM_STORE (--store): %s does not open: %w", path, err)
}

// inUse reports whether another process has the store.
func inUse(err error) bool {
	text := err.Error()
	return strings.Contains(text, "is in use") || strings.Contains(text, "database is locked")
}

func (a authConfig) verifierConfig(log *slog.Logger) (auth.Config, error) {
	key, err := publicKeyPEM(a.PublicKey)
	if err != nil {
		return auth.Config{}, usagef("IM_AUTH_PUBLIC_KEY (--auth-public-key): the file cannot be read: %w", err)
	}
	return auth.Config{
		HMACSecret: []byte(a.HMACSecret), PublicKeyPEM: key, JWKSURL: a.JWKSURL,
		Issuer: a.Issuer, Audience: a.Audience, Log: log,
	}, nil
}

func (c *config) logicConfig(p *parts, log *slog.Logger, registry prometheus.Registerer) logic.Config {
	lc := logic.Config{
		Store: p.store, Bus: p.bus,
		MaxBody: c.MaxBody, RecallWindow: c.RecallWindow,
		SendRate: float64(c.RateSend), SendBurst: c.RateBurst,
		Retention: c.Retention, DedupRetention: c.DedupRetention,
		Node: c.gatewayID(), Vouched: c.Replication == "sync",
		Log: log, Metrics: registry,
	}
	if p.redis != nil {
		lc.Dedup, lc.DedupShared = p.openAnswers(log, registry), true
	}
	// Here 0 means no bound; there it means the default, and less than 0 no bound.
	if c.RecallWindow == 0 {
		lc.RecallWindow = -1
	}
	if c.RateSend == 0 {
		lc.SendRate = -1
	}
	return lc
}

func (c *config) gatewayConfig(p *parts, log *slog.Logger, registry prometheus.Registerer, conns int) gateway.Config {
	gc := gateway.Config{
		Logic: p.rules, Bus: p.bus, Pending: p.openPending(c, log, registry),
		Verify: p.verifier.Verify, Allow: c.allow, Create: p.verifier.Dev(), Shared: p.shared, Apart: p.client != nil,
		MaxBody: c.MaxBody, MaxInflight: c.MaxInflight, MaxConns: conns,
		Sweep: c.Sweep, Ladder: c.Retry, Heartbeat: c.Heartbeat,
		Log: log, Metrics: registry,
	}
	if p.client != nil {
		gc.RulesBody = p.client.MaxBody
	}
	return gc
}

// allow judges the page that a handshake comes from. In the dev login only this
// machine's own names are answered, or any page could make its name point here.
func (c *config) allow(r *http.Request) bool {
	if c.Auth.devLogin() && !auth.LoopbackHost(r) {
		return false
	}
	return auth.Origins(c.Origins).Allow(r)
}

func (c *config) apiConfig(p *parts, log *slog.Logger, registry *prometheus.Registry) api.Config {
	return api.Config{
		Logic: p.gateway.Rules(), Admin: p.rules, Auth: p.verifier,
		AdminToken: c.AdminToken, AdminOpen: c.AdminToken == "" && c.Auth.devLogin() && loopback(c.Listen),
		Gateway: p.gateway, Web: web.Handler(), Ready: p.ready,
		Gatherer: registry, Registerer: registry,
		Origins: c.Origins, MaxBody: c.MaxBody, Log: log, Version: buildInfo().String(),
	}
}

// ready says how each part is. Its details are public.
func (p *parts) ready(ctx context.Context) []api.Check {
	checks := []api.Check{check("server", p.drainingError(), "shutting down")}
	if p.store != nil {
		checks = append(checks, p.storeCheck(ctx), p.durabilityCheck())
	}
	if p.client != nil {
		checks = append(checks, p.nodesCheck())
	}
	checks = append(checks, p.busCheck())
	if p.gateway != nil {
		checks = append(checks,
			check("gateway", p.gateway.Health(), "takes no connections"),
			check("auth", p.verifier.Ready(), "the keys of tokens cannot be fetched"))
	}
	if p.redis != nil {
		checks = append(checks, p.redisCheck())
	}
	if p.store != nil && p.shared {
		checks = append(checks, p.clockCheck(), p.historyCheck(ctx))
	}
	return checks
}

// busCheck only warns: without wake-ups from other nodes, the sweep finds what they
// stored. A node that left the balancer for that would leave with all the others.
func (p *parts) busCheck() api.Check {
	c := check("bus", p.bus.Health(), "wake-ups between the nodes do not flow: messages of other nodes come with the next sweep; the log says why")
	if c.State == api.Fail {
		c.State = api.Warn
		if stuck(p.standby.Load()) {
			c.Detail = "wake-ups wait for the commits that wait for a standby, see store"
		}
	}
	return c
}

// durabilityCheck tells the settings that durability rests on.
func (p *parts) durabilityCheck() api.Check {
	settings := *p.settings.Load()
	if bad := unsafeOf(settings); len(bad) > 0 {
		return api.Check{Name: "durability", State: api.Warn,
			Detail: "sent messages can be lost: the store's " + bad[0].Name + " is " + bad[0].Value + " and should be " + bad[0].Want}
	}
	var list []string
	for _, s := range settings {
		list = append(list, s.Name+" "+s.Value)
	}
	return api.Check{Name: "durability", State: api.OK, Detail: strings.Join(list, ", ")}
}

// clockCheck warns when this machine and the store's disagree about the time.
func (p *parts) clockCheck() api.Check {
	offset := time.Duration(p.offset.Load()) * time.Millisecond
	c := api.Check{Name: "clock", State: api.OK, Detail: fmt.Sprintf("%+d ms from the store's", offset.Milliseconds())}
	if offset.Abs() > maxClockOffset {
		c.State = api.Warn
		c.Detail += ": run a time service on both; times of messages are the store's, expiry of tokens is judged here"
	}
	return c
}

// storeCheck only warns while nothing can be written: what is there can still be
// read, and the next write that succeeds ends the warning.
func (p *parts) storeCheck(ctx context.Context) api.Check {
	c := check("store", p.store.Ping(ctx), "does not answer")
	if standby := p.standby.Load(); c.State == api.OK && stuck(standby) {
		c.State, c.Detail = api.Warn, "nothing can be stored: "+waitsFor(standby)+"; "+endTheWait(standby)
	} else if c.State == api.OK && p.store.Stats().Failing {
		c.State, c.Detail = api.Warn, "the last write failed and was refused as UNAVAILABLE: the log says why (a full disk, or a right or a table that is missing?)"
	}
	return c
}

func (p *parts) drainingError() error {
	if p.draining.Load() {
		return errors.New("draining")
	}
	return nil
}

func check(name string, err error, detail string) api.Check {
	if err != nil {
		return api.Check{Name: name, State: api.Fail, Detail: detail}
	}
	return api.Check{Name: name, State: api.OK}
}

// close closes what was made, the last first. It may be called once.
func (p *parts) close() error {
	var errs []error
	for i := len(p.closers) - 1; i >= 0; i-- {
		errs = append(errs, p.closers[i]())
	}
	p.closers = nil
	return errors.Join(errs...)
}

// gatewayID is the name of this process in logs.
func (c *config) gatewayID() string {
	if c.GatewayID != "" {
		return c.GatewayID
	}
	host, err := os.Hostname()
	if err != nil {
		host = "impart"
	}
	return host + "-" + randomName()[:6]
}

func randomName() string {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}
