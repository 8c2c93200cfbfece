package mysql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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

// owner is the user that a server runs as: MariaDB does not run as root.
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
	return 0, fmt.Errorf("no free port for MariaDB: %w", err)
}

// makeFolder makes the server's folder, which only its user can enter.
func (s *Server) makeFolder() error {
	if s.own {
		dir, err := os.MkdirTemp("", "impart-mariadb-")
		if err != nil {
			return fmt.Errorf("a folder for MariaDB: %w", err)
		}
		s.dir = dir
	}
	dir, err := filepath.Abs(s.dir)
	if err == nil {
		s.dir = dir
		err = os.MkdirAll(s.data(), 0o700)
	}
	if err == nil {
		err = s.handOver(dir)
	}
	if err != nil {
		return fmt.Errorf("the folder of MariaDB: %w", err)
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
	return filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, s.runAs.uid, s.runAs.gid)
	})
}

// command is the server's program, run as its user and with nothing of our
// environment.
func (s *Server) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.programs.Server, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}
	if s.cluster != nil {
		cmd.Env[1] += ":" + s.cluster.dir
	}
	cmd.SysProcAttr = attributes(s.runAs)
	return cmd
}

// run runs the server's program to its end; an error has what it said.
func (s *Server) run(ctx context.Context, input io.Reader, args ...string) (said string, err error) {
	cmd := s.command(args...)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, &out, &out
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("mariadbd: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return out.String(), fmt.Errorf("mariadbd: %w: %s", err, tail(out.String(), 10))
	}
	return out.String(), nil
}

// initialize makes a new server's data, with its users.
func (s *Server) initialize(ctx context.Context) error {
	var script bytes.Buffer
	script.WriteString("CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n")
	for _, name := range []string{bootFile, "mysql_performance_tables.sql", "mysql_system_tables_data.sql"} {
		text, err := os.ReadFile(filepath.Join(s.programs.Share, name))
		if err != nil {
			return fmt.Errorf("the system tables of MariaDB: %w", err)
		}
		script.Write(text)
		script.WriteByte('\n')
	}
	fmt.Fprintf(&script, `FLUSH PRIVILEGES;
DELETE FROM mysql.global_priv;
FLUSH PRIVILEGES;
CREATE USER %[1]s@'%%' IDENTIFIED BY '%[2]s';
GRANT ALL ON *.* TO %[1]s@'%%' WITH GRANT OPTION;
CREATE USER %[3]s@'%%' IDENTIFIED BY '%[4]s';
`, admin, s.secrets.admin, Role, s.secrets.role)
	// Several that begin at once would take each other's temporary tables in /tmp for leftovers.
	_, err := s.run(ctx, &script, "--no-defaults", "--bootstrap", "--datadir="+s.data(), "--tmpdir="+s.dir, "--lc-messages-dir="+s.programs.Share,
		"--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0", "--skip-innodb-doublewrite", "--log-warnings=0")
	if err != nil {
		return err
	}
	return s.writeSettings()
}

// settingsFile holds all of a server's settings.
func (s *Server) settingsFile() string { return filepath.Join(s.dir, "lab.cnf") }

// small are the settings of a server for tests: it starts quickly, takes little
// memory, and keeps its word.
var small = map[string]string{
	"innodb_buffer_pool_size":        "64M",
	"innodb_log_file_size":           "64M",
	"innodb_flush_log_at_trx_commit": "1",
	"innodb_doublewrite":             "ON",
	"max_connections":                "300",
	"performance_schema":             "OFF",
	"skip_name_resolve":              "ON",
	"character_set_server":           "utf8mb4",
	"feedback":                       "OFF",
}

// longestSocket is what the address of a socket may hold on every system.
const longestSocket = 90

// writeSettings writes the settings file anew.
func (s *Server) writeSettings() error {
	all := maps.Clone(small)
	all["bind_address"], all["port"] = "127.0.0.1", strconv.Itoa(s.port)
	all["datadir"], all["lc_messages_dir"] = s.data(), s.programs.Share
	all["pid_file"], all["tmpdir"] = filepath.Join(s.dir, "pid"), s.dir
	all["socket"] = filepath.Join(s.dir, "sock")
	if len(s.dir) > longestSocket {
		all["socket"] = "sock" // in the data folder, from where the server starts it
	}
	maps.Copy(all, s.settings)
	var text strings.Builder
	text.WriteString("[mariadbd]\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s = %s\n", name, all[name])
	}
	if err := writeThrough(s.settingsFile(), text.String()); err != nil {
		return err
	}
	if s.runAs == nil {
		return nil
	}
	return os.Chown(s.settingsFile(), s.runAs.uid, s.runAs.gid)
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

// Copy makes a cold copy of the running server's data, for which it stops it for a
// moment. restore puts the copy in place of the data, as often as it is called: what
// was committed since the copy is gone, as with any backup. The copy goes with the
// server's folder.
func (s *Server) Copy(ctx context.Context) (restore func(context.Context) error, err error) {
	copied := filepath.Join(s.dir, "copy-"+random())
	if err := s.exchange(ctx, func() error { return copyTree(ctx, s.data(), copied) }); err != nil {
		return nil, fmt.Errorf("copying MariaDB's data: %w", err)
	}
	return func(ctx context.Context) error {
		err := s.exchange(ctx, func() error {
			if err := os.RemoveAll(s.data()); err != nil {
				return err
			}
			return copyTree(ctx, copied, s.data())
		})
		if err != nil {
			return fmt.Errorf("putting MariaDB's data back: %w", err)
		}
		return nil
	}, nil
}

// exchange does something with the data while the server is down.
func (s *Server) exchange(ctx context.Context, do func() error) error {
	if err := s.Stop(ctx); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return s.Start(ctx)
}

// copyTree copies a folder with what belongs to whom.
func copyTree(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, tail(string(out), 3))
	}
	return nil
}
