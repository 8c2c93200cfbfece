#!/bin/sh
# Prints the path of MariaDB's server program, for the tests and the fault lab: they
# run private servers of their own, and clusters with Galera's library. Without them
# it installs Debian's packages where that is possible (as root, with apt-get): the
# server's programs alone, which bring no service along. Otherwise it says what to do
# and fails.
set -eu

find_mariadb() {
	for server in "$(command -v mariadbd || echo none)" /usr/sbin/mariadbd; do
		root=$(dirname "$(dirname "$server")")
		for share in "$root/share/mysql" "$root/share/mariadb" /usr/share/mysql; do
			if [ -x "$server" ] && [ -f "$share/mysql_system_tables.sql" ]; then
				echo "$server"
				return 0
			fi
		done
	done
	return 1
}

find_galera() {
	for library in /usr/lib/galera/libgalera_smm.so /usr/lib64/galera-4/libgalera_smm.so /usr/lib/libgalera_smm.so; do
		[ -f "$library" ] && return 0
	done
	return 1
}

find_galera && find_mariadb && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "find-mariadb: no MariaDB server with Galera here; installing Debian's packages" >&2
	if apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mariadb-server-core galera-4 >&2; then
		find_galera && find_mariadb && exit 0
	fi
fi

cat >&2 <<'END'
find-mariadb: the tests need the programs of a MariaDB server with Galera, and they are not there.
  Debian, Ubuntu:  sudo apt-get install mariadb-server-core galera-4
  elsewhere:       install MariaDB 10.6 or newer and galera-4, with mariadbd in PATH
  without them:    make test-short runs everything that needs only Go
END
exit 1
