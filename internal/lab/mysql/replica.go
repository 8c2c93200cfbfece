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

// Synchronous lets commits on the server wait for a replica, for an hour and before
// anybody sees them, once one is there.
func (s *Server) Synchronous(ctx context.Context) error {
	err := s.Set(ctx, map[string]string{
		"rpl_semi_sync_master_timeout": strconv.Itoa(int(time.Hour.Milliseconds())), "rpl_semi_sync_master_wait_point": "AFTER_SYNC",
	})
	if err != nil {
		return err
	}
	if err := s.Set(ctx, map[string]string{"rpl_semi_sync_master_enabled": "ON"}); err != nil {
		return err
	}
	for {
		n, err := s.Followers(ctx)
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

// Asynchronous lets commits wait for nobody, those that do so already included.
func (s *Server) Asynchronous(ctx context.Context) error {
	return s.Set(ctx, map[string]string{"rpl_semi_sync_master_enabled": "OFF"})
}

// Followers is how many replicas the server sends to that acknowledge what they get.
func (s *Server) Followers(ctx context.Context) (int, error) {
	return Ask[int](ctx, s, "", "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'RPL_SEMI_SYNC_MASTER_CLIENTS'")
}

// EndWaiters ends the sessions that wait for a replica, those that queue behind them
// too, and gives how many: their transactions are committed here and nowhere else.
func (s *Server) EndWaiters(ctx context.Context) (ended int, err error) {
	pool, err := s.Open("")
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	// One waits for all that were committed with it, and the next one begins after it.
	for end := time.Now().Add(queueFor); time.Now().Before(end); time.Sleep(readyEvery) {
		ids, err := waiters(ctx, pool)
		if err != nil {
			return ended, err
		}
		for _, id := range ids {
			if _, err := pool.ExecContext(ctx, fmt.Sprint("KILL CONNECTION ", id)); err == nil { // one that has ended is no error
				ended++
			}
		}
	}
	return ended, nil
}

// queueFor is ample for what queues behind a session that was ended.
const queueFor = 500 * time.Millisecond

// waiters are the sessions that wait for a replica and have not been told to end.
func waiters(ctx context.Context, pool *sql.DB) (ids []int64, err error) {
	rows, err := pool.QueryContext(ctx, "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for semi-sync ACK%' AND COMMAND <> 'Killed'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// Caught reports whether a replica has done all that its primary has.
func (s *Server) Caught(ctx context.Context, primary *Server) (bool, error) {
	there, err := Ask[string](ctx, primary, "", "SELECT @@gtid_binlog_pos")
	if err != nil {
		return false, err
	}
	late, err := Ask[int](ctx, s, "", "SELECT MASTER_GTID_WAIT(?, 0)", there)
	return err == nil && late == 0, err
}

// Deafen makes a replica hear its primary no more; what has reached it stays.
func (s *Server) Deafen(ctx context.Context) error {
	return s.Exec(ctx, "", "STOP SLAVE IO_THREAD")
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
