package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"
)

// Primary are settings of a server that others can replicate.
func Primary() map[string]string {
	return map[string]string{"log_bin": "binlog", "sync_binlog": "1", "server_id": "1"}
}

// Replica makes a server that follows this one, which has the settings of [Primary].
// It has everything from the beginning on, takes no writes, and acknowledges to its
// primary what has reached it, if that asks for it. The caller closes it.
func (s *Server) Replica(ctx context.Context, o Options) (*Server, error) {
	settings := Primary()
	maps.Copy(settings, map[string]string{"server_id": "2", "read_only": "ON", "rpl_semi_sync_slave_enabled": "ON", "slave_net_timeout": "5"})
	maps.Copy(settings, o.Settings)
	o.Settings = settings
	r, err := newServer(o)
	if err != nil {
		return nil, err
	}
	r.secrets = s.secrets
	if err = r.initialize(ctx); err == nil {
		err = r.Start(ctx)
	}
	if err == nil {
		err = r.Exec(ctx, "", fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %d, MASTER_USER = '%s', MASTER_PASSWORD = '%s',"+
			" MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1; START SLAVE", s.port, admin, s.secrets.admin))
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Synchronous lets commits on the server wait for a replica, for an hour, once one is
// there.
func (s *Server) Synchronous(ctx context.Context) error {
	if err := s.Set(ctx, map[string]string{"rpl_semi_sync_master_timeout": strconv.Itoa(int(time.Hour.Milliseconds()))}); err != nil {
		return err
	}
	if err := s.Set(ctx, map[string]string{"rpl_semi_sync_master_enabled": "ON"}); err != nil {
		return err
	}
	for {
		n, err := Ask[int](ctx, s, "", "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'RPL_SEMI_SYNC_MASTER_CLIENTS'")
		if err != nil || n > 0 {
			return err
		}
		select {
		case <-time.After(readyEvery):
		case <-ctx.Done():
			return fmt.Errorf("no replica has come: %w", context.Cause(ctx))
		}
	}
}

// Promote makes a replica a primary, once it has done all that has reached it.
func (s *Server) Promote(ctx context.Context) error {
	if err := s.Exec(ctx, "", "STOP SLAVE IO_THREAD"); err != nil {
		return fmt.Errorf("promoting: %w", err)
	}
	reached, err := s.reached(ctx)
	if err != nil {
		return fmt.Errorf("promoting: %w", err)
	}
	if reached != "" {
		if late, err := Ask[int](ctx, s, "", "SELECT MASTER_GTID_WAIT(?, 20)", reached); err != nil || late != 0 {
			return errors.Join(fmt.Errorf("promoting: the replica does not come to %s", reached), err)
		}
	}
	if err := s.Exec(ctx, "", "STOP SLAVE; RESET SLAVE ALL"); err != nil {
		return fmt.Errorf("promoting: %w", err)
	}
	return s.Set(ctx, map[string]string{"read_only": "OFF"})
}

// reached is the last transaction that has reached a replica.
func (s *Server) reached(ctx context.Context) (string, error) {
	pool, err := s.Open("")
	if err != nil {
		return "", err
	}
	defer pool.Close()
	rows, err := pool.QueryContext(ctx, "SHOW SLAVE STATUS")
	if err != nil {
		return "", err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil || !rows.Next() {
		return "", errors.Join(errors.New("the server is no replica"), err, rows.Err())
	}
	values := make([]sql.NullString, len(columns))
	into := make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		return "", err
	}
	for i, name := range columns {
		if name == "Gtid_IO_Pos" {
			return values[i].String, nil
		}
	}
	return "", errors.New("the server does not tell what has reached it")
}
