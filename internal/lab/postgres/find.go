package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// ErrNotFound says that this machine has no PostgreSQL server.
var ErrNotFound = errors.New("no PostgreSQL server here (initdb, postgres, pg_basebackup): on Debian and Ubuntu scripts/find-postgres.sh installs it, " +
	"without starting a cluster; go test -short runs what needs none")

// programs are the ones of a PostgreSQL that this package runs.
var programs = []string{"initdb", "postgres", "pg_basebackup"}

// debian is where Debian keeps the programs of each version, outside of PATH.
const debian = "/usr/lib/postgresql"

// FindBinaries is the folder of PostgreSQL's programs: the one that PATH leads to,
// or the newest of Debian's. [ErrNotFound].
func FindBinaries() (string, error) {
	if initdb, err := exec.LookPath("initdb"); err == nil {
		// In PATH it may be a link to where the others are.
		for _, name := range []string{initdb, resolved(initdb)} {
			if dir := filepath.Dir(name); complete(dir) {
				return dir, nil
			}
		}
	}
	return newest(debian)
}

func newest(root string) (string, error) {
	found, _ := filepath.Glob(filepath.Join(root, "*", "bin")) // the pattern is sound
	version := func(dir string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		return n
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
	for _, dir := range found {
		if complete(dir) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("%w; looked in PATH and in %s", ErrNotFound, filepath.Join(root, "*", "bin"))
}

func resolved(name string) string {
	to, err := filepath.EvalSymlinks(name)
	if err != nil {
		return name
	}
	return to
}

func complete(dir string) bool {
	for _, name := range programs {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() {
			return false
		}
	}
	return true
}
