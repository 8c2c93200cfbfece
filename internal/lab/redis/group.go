package redis

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// group is servers that are closed together.
type group []*Server

func (g *group) start(ctx context.Context, o Options) (*Server, error) {
	s, err := Start(ctx, o)
	if err == nil {
		*g = append(*g, s)
	}
	return s, err
}

// Close ends all servers.
func (g group) Close() error {
	var errs []error
	for _, s := range g {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// url names several servers in one address, the first of them as given.
func (g group) url(first string, parameters ...string) string {
	query := url.Values{}
	for _, s := range g[1:] {
		query.Add("addr", s.peerAddr())
	}
	for i := 0; i < len(parameters); i += 2 {
		query.Set(parameters[i], parameters[i+1])
	}
	return first + "?" + query.Encode()
}

// Sentinel is a master with a replica, and three Sentinels that watch over them.
type Sentinel struct {
	Master, Replica *Server // as they were at the start
	Watchers        []*Server
	all             group
	options         SentinelOptions
}

// SentinelOptions say how Sentinels and their servers are made. The zero value has
// neither passwords nor TLS.
type SentinelOptions struct {
	Password         string // of the master and the replica
	SentinelPassword string // of the Sentinels
	TLS              TLS    // by which all of them talk to each other, if it is set
}

// sentinelSet is what the Sentinels call their master.
const sentinelSet = "im"

// StartSentinel starts a master, a replica and three Sentinels, and waits until these
// know each other. A master that is silent for a second is replaced.
func StartSentinel(ctx context.Context, o SentinelOptions) (_ *Sentinel, err error) {
	s := &Sentinel{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	var among [][2]string
	if o.TLS != (TLS{}) {
		among = [][2]string{{"tls-replication", "yes"}}
	}
	if s.Master, err = s.all.start(ctx, Options{Password: o.Password, TLS: o.TLS, Settings: among}); err != nil {
		return nil, err
	}
	follow := append(among, [2]string{"replicaof", fmt.Sprint("127.0.0.1 ", s.Master.peerPort())})
	if s.Replica, err = s.all.start(ctx, Options{Password: o.Password, TLS: o.TLS, Settings: follow}); err != nil {
		return nil, err
	}
	rules := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\nsentinel down-after-milliseconds %[1]s 1000\n"+
		"sentinel failover-timeout %[1]s 4000\n", sentinelSet, s.Master.peerPort())
	if o.Password != "" {
		rules += fmt.Sprintf("sentinel auth-pass %s %s\n", sentinelSet, o.Password)
	}
	for range 3 {
		w, err := s.all.start(ctx, Options{sentinel: rules, Password: o.SentinelPassword, TLS: o.TLS, Settings: among})
		if err != nil {
			return nil, err
		}
		s.Watchers = append(s.Watchers, w)
	}
	return s, await(ctx, 30*time.Second, "the Sentinels do not know each other and the replica", func(ctx context.Context) (bool, error) {
		for _, w := range s.Watchers {
			state, err := w.Do(ctx, "INFO", "sentinel")
			if err != nil || !strings.Contains(state, "slaves=1,sentinels=3") {
				return false, nil
			}
		}
		role, err := s.Replica.Do(ctx, "INFO", "replication")
		return err == nil && strings.Contains(role, "master_link_status:up"), nil
	})
}

// URL is the address of the Sentinels and the name of their master, with all passwords,
// and with the files of TLS.
func (s *Sentinel) URL() string {
	parameters := []string{"master_set", sentinelSet}
	if s.options.SentinelPassword != "" {
		parameters = append(parameters, "sentinel_password", s.options.SentinelPassword)
	}
	first := address(s.Watchers[0].peerAddr(), s.options.Password)
	if tls := s.options.TLS; tls != (TLS{}) {
		first = "rediss" + strings.TrimPrefix(first, "redis")
		parameters = append(parameters, "tls_ca", tls.CA, "tls_cert", tls.Cert, "tls_key", tls.Key)
	}
	return group(s.Watchers).url(first, parameters...)
}

// AwaitFailover waits until the Sentinels name another master than was.
func (s *Sentinel) AwaitFailover(ctx context.Context, was *Server) error {
	return await(ctx, 30*time.Second, "no failover", func(ctx context.Context) (bool, error) {
		for _, w := range s.Watchers {
			at, err := w.Do(ctx, "SENTINEL", "get-master-addr-by-name", sentinelSet)
			if err != nil || strings.HasSuffix(at, fmt.Sprintf("\n%d", was.peerPort())) {
				return false, nil
			}
		}
		return true, nil
	})
}

// Close ends all servers.
func (s *Sentinel) Close() error { return s.all.Close() }

// Cluster is three masters with a replica each.
type Cluster struct {
	Nodes []*Server // the masters first, as they were at the start
	all   group
}

// StartCluster starts six servers, joins them and waits until each slot is served
// and each master has its replica. A master that is silent for 1.5 s is replaced.
func StartCluster(ctx context.Context) (_ *Cluster, err error) {
	c := &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	create := []string{"--cluster", "create"}
	for range 6 {
		node, err := c.all.start(ctx, Options{Settings: [][2]string{
			{"cluster-enabled", "yes"}, {"cluster-node-timeout", "1500"}, {"cluster-replica-validity-factor", "0"},
		}})
		if err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, node)
		create = append(create, node.Addr())
	}
	if _, err := c.Nodes[0].Do(ctx, append(create, "--cluster-replicas", "1", "--cluster-yes")...); err != nil {
		return nil, err
	}
	return c, c.AwaitWhole(ctx)
}

// AwaitWhole waits until every server that runs sees all slots served, and every
// master that it sees has its replica.
func (c *Cluster) AwaitWhole(ctx context.Context) error {
	return await(ctx, 60*time.Second, "the cluster is not whole", func(ctx context.Context) (bool, error) {
		for _, node := range c.Nodes {
			node.mu.Lock()
			up := node.running()
			node.mu.Unlock()
			if !up {
				continue
			}
			state, err := node.Do(ctx, "CLUSTER", "INFO")
			if err != nil || !strings.Contains(state, "cluster_state:ok") || !strings.Contains(state, "cluster_slots_ok:16384") {
				return false, nil
			}
			role, err := node.Do(ctx, "INFO", "replication")
			if err != nil || strings.Contains(role, "role:slave") && !strings.Contains(role, "master_link_status:up") {
				return false, nil
			}
		}
		return true, nil
	})
}

// Wipe removes all that the cluster holds.
func (c *Cluster) Wipe(ctx context.Context) error {
	for _, node := range c.Nodes {
		role, err := node.Do(ctx, "INFO", "replication")
		if err == nil && strings.Contains(role, "role:master") {
			err = node.Wipe(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ID is what the cluster calls a node.
func (c *Cluster) ID(ctx context.Context, node int) (string, error) {
	return c.Nodes[node].Do(ctx, "CLUSTER", "MYID")
}

// URL names every node.
func (c *Cluster) URL() string { return c.all.url(c.Nodes[0].URL()) }

// Close ends all servers.
func (c *Cluster) Close() error { return c.all.Close() }
