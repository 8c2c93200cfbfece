// Package redis is all that touches Redis: the pending sets of gateways, the answers
// of sends that have committed, and the bus. Each is an accelerator: Redis may be
// down, slow, wiped or replaced at any moment, and nothing is lost by it but time
// (D11). No call waits for it longer than [patience], none fails a send or a push,
// and everything heals by itself.
//
// One Redis, a master under Sentinels, and a Cluster are all spoken to through one
// [Client]. A Redis (its database, where it has several) belongs to one deployment.
package redis

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"
)

// patience bounds one exchange with Redis. A healthy one answers in well under a
// millisecond; who has waited so long is better off without it.
const patience = 250 * time.Millisecond

// Of the client's own upkeep.
const (
	dialWithin    = time.Second
	shapeEvery    = 5 * time.Second // Sentinels are asked for their master, should their own word be missed
	pingEvery     = time.Second     // also of idle connections, to find those that are half open
	silentFor     = 4 * time.Second // a connection that owes an answer for so long is given up
	reconnectMost = time.Second     // the pause between two attempts at the first connection
)

// errDown says that Redis is not asked at present, because it did not answer lately.
var errDown = errors.New("redis does not answer")

// Config of a client. URL is needed.
type Config struct {
	URL     string                // see [ParseURL]
	Log     *slog.Logger          // nil: nothing is logged
	Metrics prometheus.Registerer // nil: nothing is counted
}

// Client is a connection to Redis, of whatever shape it is. Its parts are made from
// it, and closed before it.
type Client struct {
	log     *slog.Logger
	opts    rueidis.ClientOption
	metrics *metrics

	stop    context.CancelFunc // ends what follows
	running sync.WaitGroup
	ready   chan struct{} // closed when there is a connection for the first time

	mu       sync.Mutex // guards what follows
	conn     rueidis.Client
	down     error // why Redis is not well; nil: it is
	unlisten func()
}

// Open connects to Redis. One that cannot be reached is no error, as the service
// goes on without it: it is tried again in the background. One that refuses the user
// or the password, or has no such database, or whose certificate is not trusted, is ([RefusedError]), and so is
// an address that cannot be read. No error and no log line has the password.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	opts, err := options(cfg.URL)
	if err != nil {
		return nil, err
	}
	c := &Client{log: cfg.Log, opts: opts, metrics: newMetrics(), ready: make(chan struct{}), down: errDown}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	conn, err := c.dial(ctx)
	if refusal := refusalOf(err, cfg.URL); refusal != nil {
		return nil, refusal
	}
	work, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.unlisten = c.metrics.register(cfg.Metrics, c)
	if err != nil {
		c.log.Warn("redis cannot be reached; it is tried again, and everything goes on without it", "redis", Hosts(cfg.URL), "err", hinted(err, opts.TLSConfig != nil))
		c.note(err)
	} else {
		c.connected(conn)
	}
	c.running.Go(func() { c.keep(work) })
	return c, nil
}

// refused reports whether Redis answered, and will not have us.
func refused(err error) bool {
	reply, is := rueidis.IsRedisErr(err)
	if !is {
		return false
	}
	for _, word := range []string{"WRONGPASS", "NOAUTH", "NOPERM", "ERR AUTH", "ERR invalid password"} {
		if strings.HasPrefix(reply.Error(), word) {
			return true
		}
	}
	return noDatabase(err)
}

// noDatabase reports whether Redis does not have the database of the address.
func noDatabase(err error) bool {
	reply, is := rueidis.IsRedisErr(err)
	return is && (strings.Contains(reply.Error(), "DB index is out of range") || strings.Contains(reply.Error(), "SELECT is not allowed in cluster mode"))
}

// options are the settings of every connection.
func options(address string) (rueidis.ClientOption, error) {
	opts, err := ParseURL(address)
	if err != nil {
		return opts, err
	}
	opts.DisableCache = true     // nothing here is read twice
	opts.PipelineMultiplex = -1  // one connection a server: what is told in order arrives in order
	opts.AlwaysPipelining = true // a caller that gives up does not cost the others their connection
	opts.DisableRetry = true     // whoever calls knows better
	opts.ReadBufferEachConn = 32 << 10
	opts.WriteBufferEachConn = 32 << 10
	opts.Dialer.Timeout, opts.Dialer.KeepAlive, opts.ConnWriteTimeout = dialWithin, pingEvery, silentFor
	opts.ClientName = "impart"
	opts.Sentinel.Dialer, opts.Sentinel.ClientName, opts.Sentinel.TopologyRefreshInterval = opts.Dialer, opts.ClientName, shapeEvery
	return opts, nil
}

// dial makes the client library's client. That asks Redis for its shape, and so it
// fails while nobody answers.
func (c *Client) dial(ctx context.Context) (rueidis.Client, error) {
	type outcome struct {
		conn rueidis.Client
		err  error
	}
	made := make(chan outcome, 1)
	go func() {
		conn, err := rueidis.NewClient(c.opts)
		made <- outcome{conn, err}
	}()
	select {
	case o := <-made:
		return o.conn, o.err
	case <-ctx.Done():
		// Its time-outs end it soon; nobody needs it then.
		if o := <-made; o.err == nil {
			o.conn.Close()
		}
		return nil, ctx.Err()
	}
}

func (c *Client) connected(conn rueidis.Client) {
	c.mu.Lock()
	c.conn = conn
	c.mu.Unlock()
	c.note(nil)
	close(c.ready)
}

// keep connects, if need be, and then watches Redis.
func (c *Client) keep(ctx context.Context) {
	for attempt := 0; c.get() == nil; attempt++ {
		if !wait(ctx, min(reconnectMost, 100*time.Millisecond<<min(attempt, 10))) {
			return
		}
		conn, err := c.dial(ctx)
		if err != nil {
			c.note(err)
			continue
		}
		c.connected(conn)
	}
	for wait(ctx, pingEvery) {
		c.note(c.ping(ctx))
	}
}

// wait is false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// get is the client library's client, nil before the first connection.
func (c *Client) get() rueidis.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

// ping asks every master whether it is there.
func (c *Client) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, silentFor)
	defer cancel()
	conn := c.get()
	if conn.Mode() != rueidis.ClientModeCluster {
		return conn.Do(ctx, conn.B().Ping().Build()).Error()
	}
	state, err := conn.Do(ctx, conn.B().ClusterInfo().Build()).ToString()
	if err == nil && !strings.Contains(state, "cluster_state:ok") {
		err = errors.New("the cluster does not serve all of its slots")
	}
	return err
}

// note keeps how Redis is, and logs when that changes.
func (c *Client) note(err error) {
	c.mu.Lock()
	was := c.down
	c.down = err
	c.mu.Unlock()
	switch {
	case err == nil && was != nil && was != errDown:
		c.log.Info("redis answers again")
	case err != nil && was == nil:
		c.log.Warn("redis does not answer; everything goes on without it", "err", err)
	}
}

// Health is nil while Redis answers.
func (c *Client) Health() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
}

// Shape says what kind of Redis it is, for people: one server, Sentinel or Cluster;
// "" while that is not known.
func (c *Client) Shape() string {
	conn := c.get()
	if conn == nil {
		return ""
	}
	switch conn.Mode() {
	case rueidis.ClientModeCluster:
		return "a Cluster"
	case rueidis.ClientModeSentinel:
		return "a master under Sentinels"
	default:
		return "one server"
	}
}

// Close ends the connections. What was made from the client is closed first.
func (c *Client) Close() error {
	c.stop()
	c.running.Wait()
	if conn := c.get(); conn != nil {
		conn.Close()
	}
	c.unlisten()
	return nil
}

// clustered reports whether keys and channels are spread over slots. Before the first
// connection nobody knows, and nothing is sent.
func (c *Client) clustered() bool {
	conn := c.get()
	return conn != nil && conn.Mode() == rueidis.ClientModeCluster
}
