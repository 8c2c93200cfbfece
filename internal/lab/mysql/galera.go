package mysql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// Cluster is a Galera cluster of private servers. Members begin alike, and one that was
// away gets what it lacks from the memory of the others; none ever copies the data of
// another as a whole.
type Cluster struct {
	members []*Server
	cluster *cluster
}

// cluster is what a member knows of its cluster.
type cluster struct {
	library string
	ports   []int // of the members' talk with one another
	dir     string
}

// clusterName is that of every cluster of the lab, none of which meets another.
const clusterName = "impart_lab"

// StartCluster makes a cluster of n servers and waits until all of them take part. The
// caller closes it.
func StartCluster(ctx context.Context, n int, o Options) (_ *Cluster, err error) {
	library, err := FindGalera()
	if err != nil {
		return nil, err
	}
	o.cluster = &cluster{library: library}
	c := &Cluster{cluster: o.cluster}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := o.cluster.handOver(); err != nil {
		return nil, err
	}
	for range n {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		o.cluster.ports = append(o.cluster.ports, port)
	}
	settings := o.Settings
	for i := range n {
		if o.Settings, err = o.cluster.settings(i); err != nil {
			return nil, err
		}
		maps.Copy(o.Settings, settings)
		s, err := newServer(o)
		if err != nil {
			return nil, err
		}
		c.members = append(c.members, s)
		if i > 0 {
			s.secrets = c.members[0].secrets
		}
	}
	if err := c.initialize(ctx); err != nil {
		return nil, err
	}
	if err := c.bootstrap(ctx); err != nil {
		return nil, err
	}
	for _, s := range c.members[1:] { // one after the other: one cannot give to two
		if err := s.Start(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// bootstrap starts the first member as a cluster of its own.
func (c *Cluster) bootstrap(ctx context.Context) error {
	first := c.members[0]
	if err := first.begin(ctx, "--wsrep-new-cluster"); err != nil {
		return err
	}
	if err := first.awaitReady(ctx); err != nil {
		return fmt.Errorf("the first server of the cluster: %w; its log ends with:\n%s", err, tail(first.Log(), 30))
	}
	return nil
}

// initialize gives all members the same data: those of a cluster of one that was
// stopped, whose tables know the place from which on a member lacks something.
func (c *Cluster) initialize(ctx context.Context) error {
	first := c.members[0]
	if err := first.initialize(ctx); err != nil {
		return err
	}
	state := "# GALERA saved state\nversion: 2.1\nuuid:    00000000-0000-0000-0000-000000000000\nseqno:   -1\nsafe_to_bootstrap: 1\n"
	if err := writeThrough(filepath.Join(first.data(), stateFile), state); err != nil {
		return err
	}
	if err := first.handOver(first.dir); err != nil {
		return err
	}
	if err := c.bootstrap(ctx); err != nil {
		return err
	}
	if err := first.Stop(ctx); err != nil {
		return err
	}
	for _, s := range c.members[1:] {
		if err := os.RemoveAll(s.data()); err != nil {
			return err
		}
		if err := copyTree(ctx, first.data(), s.data()); err != nil {
			return err
		}
		if err := os.RemoveAll(filepath.Join(s.data(), "galera.cache")); err != nil {
			return err
		}
		if err := s.writeSettings(); err != nil {
			return err
		}
		if err := s.handOver(s.dir); err != nil {
			return err
		}
	}
	return nil
}

// stateFile is where a member that was stopped in good order says how far it has come.
const stateFile = "grastate.dat"

// settings are those of member i.
func (c *cluster) settings(i int) (map[string]string, error) {
	ist, err := freePort()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, port := range c.ports {
		all = append(all, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return map[string]string{
		"server_id": fmt.Sprint(i + 1),
		"wsrep_on":  "ON", "wsrep_provider": c.library, "wsrep_cluster_name": clusterName,
		"wsrep_cluster_address": "gcomm://" + strings.Join(all, ","),
		"wsrep_node_address":    all[i],
		"wsrep_node_name":       fmt.Sprintf("lab%d", i+1),
		"wsrep_sst_method":      sstMethod,
		"wsrep_slave_threads":   "2",
		"wsrep_provider_options": fmt.Sprintf("base_port=%d;gmcast.listen_addr=tcp://%s;ist.recv_addr=127.0.0.1:%d;gcache.size=64M;gcache.page_size=16M;gcs.fc_limit=64",
			c.ports[i], all[i], ist),
		"binlog_format": "ROW", "innodb_autoinc_lock_mode": "2", "innodb_flush_log_at_trx_commit": "1",
	}, nil
}

// sstMethod names the script below: MariaDB has one run on both sides before a member
// gets what it lacks, also where that comes from memory.
const sstMethod = "lab"

// sstScript is such a script for members on one machine: the giver tells from where on
// it gives, by a file, and refuses to copy its data.
const sstScript = `#!/bin/sh
role= bypass= address= data= gtid= domain=
while [ $# -gt 0 ]; do
	case $1 in
	--role) role=$2; shift ;;
	--address) address=$2; shift ;;
	--datadir) data=$2; shift ;;
	--gtid) gtid=$2; shift ;;
	--gtid-domain-id) domain=$2; shift ;;
	--bypass) bypass=1 ;;
	esac
	shift
done
here=$(dirname "$0")
case $role in
joiner)
	name=$(basename "$(dirname "$data")")
	rm -f "$here/$name"
	echo "ready 127.0.0.1/$name"
	while [ ! -f "$here/$name" ]; do
		kill -0 $PPID 2>/dev/null || exit 1
		sleep 0.05
	done
	cat "$here/$name"
	rm -f "$here/$name"
	;;
donor)
	name=$(basename "$address")
	[ -n "$bypass" ] || exit 93
	echo "$gtid $domain" >"$here/.$name" && mv "$here/.$name" "$here/$name" || exit 1
	echo continue
	echo "done $gtid"
	;;
esac
`

// handOver makes the folder of the script.
func (c *cluster) handOver() error {
	dir, err := os.MkdirTemp("", "impart-galera-")
	if err != nil {
		return err
	}
	c.dir = dir
	script := filepath.Join(dir, "wsrep_sst_"+sstMethod)
	if err := os.WriteFile(script, []byte(sstScript), 0o755); err != nil {
		return err
	}
	as, err := unprivileged()
	if err != nil || as == nil {
		return err
	}
	return errors.Join(os.Chown(dir, as.uid, as.gid), os.Chown(script, as.uid, as.gid))
}

var recovered = regexp.MustCompile(`Recovered position: ?([0-9a-f-]{36}:-?\d+)`)

// recoveredPlace is with what a member that has crashed has to start: how far its data
// go. One that was stopped in good order knows it.
func (s *Server) recoveredPlace(ctx context.Context) ([]string, error) {
	state, err := os.ReadFile(filepath.Join(s.data(), stateFile))
	if err != nil {
		return nil, fmt.Errorf("the state of a member of the cluster: %w", err)
	}
	if !regexp.MustCompile(`(?m)^seqno: +-1$`).Match(state) || strings.Contains(string(state), "00000000-0000-0000-0000-000000000000") {
		return nil, nil
	}
	said, err := s.run(ctx, nil, "--defaults-file="+s.settingsFile(), "--wsrep-recover")
	if err != nil {
		return nil, err
	}
	found := recovered.FindStringSubmatch(said)
	if found == nil {
		return nil, fmt.Errorf("a member of the cluster does not tell how far its data go: %s", tail(said, 10))
	}
	return []string{"--wsrep-start-position=" + found[1]}, nil
}

// Members are the servers of the cluster.
func (c *Cluster) Members() []*Server { return c.members }

// DSN is the address of a database for the product, with all members.
func (c *Cluster) DSN(db string) string {
	var all []string
	for _, s := range c.members {
		all = append(all, s.Addr())
	}
	return c.members[0].DSNAt(strings.Join(all, ","), db)
}

// Close ends all members, as [Server.Close] does.
func (c *Cluster) Close() error {
	errs := make([]error, len(c.members))
	var wg sync.WaitGroup
	for i, s := range c.members {
		wg.Go(func() { errs[i] = s.Close() })
	}
	wg.Wait()
	if c.cluster.dir != "" {
		errs = append(errs, os.RemoveAll(c.cluster.dir))
	}
	return errors.Join(errs...)
}
