package campaign

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // what the SDK's stores are made of
)

// crashCopy copies a local store that may be in use to another path, as kill -9
// would leave it at one moment of the copying: SQLite's log only grows until it
// is folded back into the file, so the file is copied first, and both again if
// that has happened meanwhile.
func crashCopy(from, to string) error {
	for range 100 {
		before, err := os.Stat(from)
		if err != nil {
			return fmt.Errorf("a copy of a store: %w", err)
		}
		main, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("a copy of a store: %w", err)
		}
		log, err := os.ReadFile(from + "-wal")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("a copy of a store: %w", err)
		}
		after, err := os.Stat(from)
		if err != nil {
			return fmt.Errorf("a copy of a store: %w", err)
		}
		if before.ModTime() != after.ModTime() || before.Size() != after.Size() {
			continue
		}
		err = os.WriteFile(to, main, 0o600)
		if err == nil && len(log) > 0 {
			err = os.WriteFile(to+"-wal", log, 0o600)
		}
		if err != nil {
			return fmt.Errorf("a copy of a store: %w", err)
		}
		return nil
	}
	return errors.New("a copy of a store: it is written without a pause")
}

// compact writes a store's file anew, with its rows and nothing else. SQLite keeps
// copies of rows where pages were divided, out of everybody's reach.
func compact(path string) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	_, err = db.Exec("VACUUM")
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("a store cannot be compacted: %w", err)
	}
	return nil
}

// removeStore takes a store away, with what belongs to it.
func removeStore(path string) {
	files, _ := filepath.Glob(path + "*")
	for _, name := range files {
		_ = os.Remove(name)
	}
}
