package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

var gooseDialects = map[string]goose.Dialect{"sqlite": goose.DialectSQLite3, "postgres": goose.DialectPostgres, "mysql": goose.DialectMySQL}

// migrate brings the schema up to what this binary knows. It never goes back: a
// newer schema is refused, because older code would break what newer code wrote.
func migrate(ctx context.Context, db *sql.DB, kind string) error {
	files, err := fs.Sub(migrations, "migrations/"+kind)
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(gooseDialects[kind], db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("store: migrations: %w", err)
	}
	have, known, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("store: cannot read the version of its schema: %w", err)
	}
	if have > known {
		return fmt.Errorf("store: its schema is version %d and this binary knows up to %d: start the newer impart that wrote it", have, known)
	}
	if have == known {
		return nil
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("store: cannot bring its schema from version %d to %d: %w", have, known, err)
	}
	return nil
}
