package pgbus

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// Vouch tells the server that the store is at from others: an older primary that is
// back, another database. The zero value takes every server.
type Vouch struct {
	// Query is a statement without parameters that gives one text: what a server says of
	// itself.
	Query string
	// Judge refuses a server that says so, by what is known now. It is asked often, and
	// asks nobody.
	Judge func(says string) error
}

// saysKey is where a connection keeps what its server said last.
const saysKey = "impart.says"

// ask asks the server of a connection, and judges what it says.
func (v *Vouch) ask(ctx context.Context, conn *pgconn.PgConn) error {
	if v.Judge == nil {
		return nil
	}
	result := conn.ExecParams(ctx, v.Query, nil, nil, nil, nil).Read()
	switch {
	case result.Err != nil:
		return fmt.Errorf("the store is not there: %w", result.Err)
	case len(result.Rows) != 1:
		return errors.New("the store is not there: its server says nothing of itself")
	}
	return v.heard(conn, string(result.Rows[0][0]))
}

// heard judges what the server of a connection has said.
func (v *Vouch) heard(conn *pgconn.PgConn, says string) error {
	conn.CustomData()[saysKey] = says
	return v.Judge(says)
}

// again judges what the server of a connection said last. Others may have learnt
// meanwhile that it is not the store's.
func (v *Vouch) again(conn *pgconn.PgConn) (says string, err error) {
	if v.Judge == nil {
		return "", nil
	}
	says, _ = conn.CustomData()[saysKey].(string)
	return says, v.Judge(says)
}
