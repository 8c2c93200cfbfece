package mysql

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNotFound says that this machine has no MariaDB server.
var ErrNotFound = errors.New("no MariaDB server here (mariadbd and its share/mysql folder): on Debian and Ubuntu scripts/find-mariadb.sh installs it, " +
	"without a service; go test -short runs what needs none")

// ErrNoGalera says that this machine lacks Galera's library.
var ErrNoGalera = errors.New("no Galera library here (libgalera_smm.so): on Debian and Ubuntu scripts/find-mariadb.sh installs it")

// Programs are where a MariaDB is.
type Programs struct {
	Server string // mariadbd
	Share  string // the folder of its messages and of the statements that make the system tables
}

// bootFile is one of the files with the statements that make the system tables.
const bootFile = "mysql_system_tables.sql"

// FindPrograms is the MariaDB of this machine: the one in PATH, or Debian's.
// [ErrNotFound].
func FindPrograms() (Programs, error) {
	server, err := exec.LookPath("mariadbd")
	if err != nil {
		server = "/usr/sbin/mariadbd"
	}
	if info, err := os.Stat(server); err != nil || info.IsDir() {
		return Programs{}, fmt.Errorf("%w; looked in PATH and in /usr/sbin", ErrNotFound)
	}
	root := filepath.Dir(filepath.Dir(server))
	for _, share := range []string{filepath.Join(root, "share/mysql"), filepath.Join(root, "share/mariadb"), "/usr/share/mysql"} {
		if _, err := os.Stat(filepath.Join(share, bootFile)); err == nil {
			return Programs{server, share}, nil
		}
	}
	return Programs{}, fmt.Errorf("%w; %s is there, but not %s", ErrNotFound, server, bootFile)
}

// FindGalera is the path of Galera's library. [ErrNoGalera].
func FindGalera() (string, error) {
	places := []string{"/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so", "/usr/lib/libgalera_smm.so"}
	for _, place := range places {
		if _, err := os.Stat(place); err == nil {
			return place, nil
		}
	}
	return "", fmt.Errorf("%w; looked in %s", ErrNoGalera, strings.Join(places, ", "))
}
