package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/impart-im/impart/internal/lab/process"
)

// ErrNoPooler says that this machine has no PgBouncer.
var ErrNoPooler = errors.New("no PgBouncer here: on Debian and Ubuntu scripts/find-pgbouncer.sh installs it, without leaving a service")

// Pooler is a private PgBouncer in transaction mode in front of a [Server], for the
// role of [Server.DSN]. It ends with the process that started it.
type Pooler struct {
	server *Server
	bin    string
	dir    string
	port   int

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// poolerConfig gets the server's port, the pooler's, the folder, and how many sessions
// it may have with the database. It logs to standard error.
const poolerConfig = `[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = plain
auth_file = %s/users.txt
pool_mode = transaction
default_pool_size = %d
max_client_conn = 500
server_login_retry = 0.1
`

// poolerReady bounds the start of a pooler, and its end.
const poolerReady = 20 * time.Second

// Pooler starts a pooler with at most that many sessions in the database. The caller
// closes it. [ErrNoPooler].
func (s *Server) Pooler(ctx context.Context, sessions int) (*Pooler, error) {
	bin, err := findPooler()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p := &Pooler{server: s, bin: bin, port: port, dir: filepath.Join(s.dir, "pooler-"+strconv.Itoa(port))}
	err = os.Mkdir(p.dir, 0o755) // in a folder that is closed to others
	for name, text := range map[string]string{
		"pgbouncer.ini": fmt.Sprintf(poolerConfig, s.port, port, p.dir, sessions),
		"users.txt":     fmt.Sprintf("%q %q\n", Role, s.secrets.role),
	} {
		if err == nil {
			err = os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the folder of the pooler: %w", err)
	}
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

func findPooler() (string, error) {
	if bin, err := exec.LookPath("pgbouncer"); err == nil {
		return bin, nil
	}
	const debians = "/usr/sbin/pgbouncer" // not everybody's PATH has that folder
	if _, err := os.Stat(debians); err != nil {
		return "", ErrNoPooler
	}
	return debians, nil
}

// DSN is the address of a database through the pooler, as the server's own is.
func (p *Pooler) DSN(db string) string { return p.server.DSNAt(p.Addr(), db) }

// Addr is where the pooler listens, the same over restarts.
func (p *Pooler) Addr() string { return "127.0.0.1:" + strconv.Itoa(p.port) }

// Start starts a pooler that was killed, and waits until it listens.
func (p *Pooler) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("the log of the pooler: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(p.bin, filepath.Join(p.dir, "pgbouncer.ini"))
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = p.dir, log, log, attributes(p.server.runAs)
	p.cmd, p.done = cmd, make(chan struct{})
	if err := process.StartBound(cmd, p.done); err != nil {
		return fmt.Errorf("starting PgBouncer: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, poolerReady)
	defer cancel()
	every := time.NewTicker(readyEvery)
	defer every.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.Addr())
		if err == nil {
			return conn.Close()
		}
		select {
		case <-every.C:
		case <-p.done:
			return fmt.Errorf("PgBouncer has ended: %s", p.Log())
		case <-ctx.Done():
			return fmt.Errorf("PgBouncer does not listen: %w: %s", err, p.Log())
		}
	}
}

// Log is what the pooler has logged.
func (p *Pooler) Log() string {
	raw, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return tail(string(raw), 20)
}

// Kill ends it with all its sessions, and waits for its end.
func (p *Pooler) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	<-p.done
}
