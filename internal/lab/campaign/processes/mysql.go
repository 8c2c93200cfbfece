package processes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/impart-im/impart/internal/lab/mysql"
)

// myDatabase is a MariaDB server.
type myDatabase struct{ *mysql.Server }

func startMySQL(ctx context.Context, log string) (database, error) {
	s, err := mysql.Start(ctx, mysql.Options{Settings: mysql.Primary(), Log: log})
	if err != nil {
		return nil, err
	}
	return myDatabase{s}, nil
}

// Halt implements [database]: MariaDB has no stop that is quicker than the one in order.
func (d myDatabase) Halt(ctx context.Context) error { return d.Stop(ctx) }

// Standby implements [database].
func (d myDatabase) Standby(ctx context.Context, log string) (database, error) {
	s, err := d.Replica(ctx, mysql.Options{Log: log})
	if err != nil {
		return nil, err
	}
	return myDatabase{s}, d.Synchronous(ctx)
}

// Clone implements [database]: by statements, which a replica does too. The server's
// files put back would leave it with another past than its replica.
func (d myDatabase) Clone(ctx context.Context, from, to string) error {
	if _, err := d.Terminate(ctx, from); err != nil {
		return err
	}
	if err := errors.Join(d.DropDatabase(ctx, to), d.CreateDatabase(ctx, to)); err != nil {
		return err
	}
	tables, err := d.tables(ctx, from)
	if err != nil {
		return fmt.Errorf("the tables of database %s: %w", from, err)
	}
	for table, columns := range tables {
		err := d.Exec(ctx, to, fmt.Sprintf("CREATE TABLE `%[3]s` LIKE `%[1]s`.`%[3]s`; INSERT INTO `%[3]s` (%[4]s) SELECT %[4]s FROM `%[1]s`.`%[3]s`",
			from, to, table, strings.Join(columns, ", ")))
		if err != nil {
			return fmt.Errorf("copying table %s from %s to %s: %w", table, from, to, err)
		}
	}
	return nil
}

// tables are those of a database with their columns that can be written: others are
// made from these.
func (d myDatabase) tables(ctx context.Context, name string) (map[string][]string, error) {
	pool, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	rows, err := pool.QueryContext(ctx, "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS"+
		" WHERE TABLE_SCHEMA = ? AND IS_GENERATED = 'NEVER' ORDER BY TABLE_NAME, ORDINAL_POSITION", name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string][]string{}
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			return nil, err
		}
		out[table] = append(out[table], "`"+column+"`")
	}
	return out, rows.Err()
}
