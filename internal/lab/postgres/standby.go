package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
)

// Standby makes a streaming standby of a running server, as a base backup with a
// replication slot of the same name, and waits until it answers. Its
// application_name is name: [Server.Synchronous] of the primary refers to it. The
// caller closes it; of o, Synced means nothing here.
func (s *Server) Standby(ctx context.Context, name string, o Options) (*Server, error) {
	o.Bin = s.bin
	standby, err := newServer(o)
	if err != nil {
		return nil, err
	}
	standby.secrets = s.secrets
	if err = s.backUp(ctx, name, standby); err == nil {
		err = standby.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("standby %s: %w", name, err), standby.Close())
	}
	return standby, nil
}

// backUp fills a standby's data from s, with its settings in place of s's: a base
// backup brings synchronous_standby_names along, and a new primary that waits for a
// standby which it does not have hangs at its first commit.
func (s *Server) backUp(ctx context.Context, name string, standby *Server) error {
	conn := fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s application_name=%s sslmode=disable", s.port, admin, s.secrets.admin, name)
	err := standby.run(ctx, "pg_basebackup", "-d", conn, "-D", standby.data(), "-R", "-C", "-S", name, "-X", "stream", "-c", "fast", "--no-sync")
	if err != nil {
		return err
	}
	return standby.writeSettings()
}

// Synchronous makes every commit wait until one of the standbys has it ("FIRST 1");
// without names, none waits.
func (s *Server) Synchronous(ctx context.Context, standbys ...string) error {
	names := ""
	if len(standbys) > 0 {
		for i, name := range standbys {
			standbys[i] = quoted(name)
		}
		names = "FIRST 1 (" + strings.Join(standbys, ", ") + ")"
	}
	return s.Set(ctx, map[string]string{"synchronous_standby_names": names})
}

// Promote makes a standby a primary and waits until it is one. What was its primary
// is not told.
func (s *Server) Promote(ctx context.Context) error {
	promoted, err := Ask[bool](ctx, s, admin, "SELECT pg_promote(true, 60)")
	if err == nil && !promoted {
		err = errors.New("it did not become one within 60 seconds")
	}
	if err != nil {
		return fmt.Errorf("promoting a standby: %w", err)
	}
	return nil
}

// Follow makes a stopped server, which was a primary or follows another one, a
// standby of primary at its next start. Its data must not have gone other ways than
// the primary's: there is no rewinding.
func (s *Server) Follow(ctx context.Context, name string, primary *Server) error {
	if s.Running() {
		return errors.New("a server that is to follow another one is stopped first")
	}
	if err := primary.Exec(ctx, admin, "SELECT pg_create_physical_replication_slot($1)", name); err != nil {
		return fmt.Errorf("a replication slot: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.settings, map[string]string{
		"primary_conninfo":          fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s application_name=%s", primary.port, admin, primary.secrets.admin, name),
		"primary_slot_name":         name,
		"synchronous_standby_names": "",
	})
	s.secrets = primary.secrets
	if err := s.writeSettings(); err != nil {
		return err
	}
	return s.signalFile("standby.signal")
}

func (s *Server) signalFile(name string) error {
	file := s.data() + string(os.PathSeparator) + name
	if err := os.WriteFile(file, nil, 0o600); err != nil || s.runAs == nil {
		return err
	}
	return os.Chown(file, s.runAs.uid, s.runAs.gid)
}
