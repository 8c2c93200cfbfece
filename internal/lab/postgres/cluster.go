package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// owner is the user that a server runs as: PostgreSQL refuses to run as root.
type owner struct{ uid, gid int }

// Ports are taken from below the ones that Linux gives to outgoing connections:
// while a server is down, nobody else gets its port.
const (
	firstPort = 15_000
	lastPort  = 32_000
)

func freePort() (int, error) {
	var err error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		var ln net.Listener
		if ln, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			return port, ln.Close()
		}
	}
	return 0, fmt.Errorf("no free port for PostgreSQL: %w", err)
}

// makeFolder makes the server's folder, which only its user can enter.
func (s *Server) makeFolder() error {
	if s.own {
		dir, err := os.MkdirTemp("", "impart-postgres-")
		if err != nil {
			return fmt.Errorf("a folder for PostgreSQL: %w", err)
		}
		s.dir = dir
	}
	dir, err := filepath.Abs(s.dir)
	if err == nil {
		s.dir = dir
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = s.handOver(dir)
	}
	if err != nil {
		return fmt.Errorf("the folder of PostgreSQL: %w", err)
	}
	return nil
}

// handOver gives the folder to the server's user, and lets that user pass through
// the folders above it where they are part of the temp folder: a test's own is
// closed to others.
func (s *Server) handOver(dir string) error {
	if s.runAs == nil {
		return nil
	}
	temp := filepath.Clean(os.TempDir())
	for above := filepath.Dir(dir); strings.HasPrefix(above, temp+string(filepath.Separator)); above = filepath.Dir(above) {
		info, err := os.Stat(above)
		if err != nil {
			return err
		}
		if err := os.Chmod(above, info.Mode().Perm()|0o011); err != nil {
			return err
		}
	}
	return os.Chown(dir, s.runAs.uid, s.runAs.gid)
}

// command is a program of PostgreSQL, run as the server's user and with nothing of
// our environment.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"LC_ALL=C", "PATH=" + s.bin + string(filepath.ListSeparator) + "/usr/bin:/bin"}
	cmd.SysProcAttr = attributes(s.runAs)
	return cmd
}

// run runs a program to its end; an error has what it said.
func (s *Server) run(ctx context.Context, name string, args ...string) error {
	cmd := s.command(name, args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w: %s", name, err, tail(said.String(), 10))
	}
	return nil
}

// initialize makes a new cluster.
func (s *Server) initialize(ctx context.Context, synced bool) error {
	secret := filepath.Join(s.dir, "password")
	if err := os.WriteFile(secret, []byte(s.secrets.admin+"\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(secret)
	if s.runAs != nil {
		if err := os.Chown(secret, s.runAs.uid, s.runAs.gid); err != nil {
			return err
		}
	}
	args := []string{"-D", s.data(), "-U", admin, "-E", "UTF8", "--locale=C", "--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile=" + secret}
	if !synced {
		args = append(args, "--no-sync")
	}
	if err := s.run(ctx, "initdb", args...); err != nil {
		return err
	}
	if err := s.writeSettings(); err != nil {
		return err
	}
	// A base backup brings this line along, and finds its own file there.
	main, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer main.Close()
	_, err = fmt.Fprintf(main, "include '%s'\n", settingsFile)
	return errors.Join(err, main.Sync())
}

// settingsFile holds a server's own settings, beside postgresql.conf.
const settingsFile = "lab.conf"

// small are the settings of a server for tests: it starts quickly, takes little
// memory, and keeps its word as PostgreSQL's defaults do.
var small = map[string]string{
	"shared_buffers":             "32MB",
	"max_connections":            "200",
	"max_wal_senders":            "8",
	"max_replication_slots":      "8",
	"dynamic_shared_memory_type": "mmap", // in the folder, so that a kill leaves nothing elsewhere
	"timezone":                   "UTC",
	"log_timezone":               "UTC",
	"log_line_prefix":            "%m [%p] %u@%d/%a ",
	"update_process_title":       "off",
	"autovacuum_naptime":         "30s",
}

// longestSocket is what the address of a socket may hold on every system.
const longestSocket = 90

// writeSettings writes the settings file anew.
func (s *Server) writeSettings() error {
	all := maps.Clone(small)
	all["listen_addresses"], all["port"] = "127.0.0.1", strconv.Itoa(s.port)
	all["unix_socket_directories"] = s.dir
	if len(s.dir) > longestSocket {
		all["unix_socket_directories"] = ""
	}
	maps.Copy(all, s.settings)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(all[name], "'", "''"))
	}
	file := filepath.Join(s.data(), settingsFile)
	if err := writeThrough(file, text.String()); err != nil {
		return err
	}
	if s.runAs == nil {
		return nil
	}
	return os.Chown(file, s.runAs.uid, s.runAs.gid)
}

// writeThrough writes a file that a power cut does not take.
func writeThrough(name, text string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// tail is the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
