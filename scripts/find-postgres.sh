#!/bin/sh
# Prints the folder of PostgreSQL's server programs, for the tests and the fault
# lab: they run private servers of their own. Without one it installs Debian's
# package where that is possible (as root, with apt-get), without making or
# starting a cluster, and otherwise says what to do and fails.
set -eu

find_postgres() {
	for bin in "$(dirname "$(command -v initdb || echo none)")" $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV); do
		if [ -x "$bin/initdb" ] && [ -x "$bin/postgres" ] && [ -x "$bin/pg_basebackup" ]; then
			echo "$bin"
			return 0
		fi
	done
	return 1
}

find_postgres && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "find-postgres: no PostgreSQL server here; installing Debian's package" >&2
	# The package makes a cluster and starts it unless it finds this beforehand.
	settings=/etc/postgresql-common/createcluster.d
	note=$settings/impart-no-cluster.conf
	trap 'rm -f "$note"' EXIT
	mkdir -p "$settings"
	echo 'create_main_cluster = false' >"$note"
	if apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >&2; then
		find_postgres && exit 0
	fi
fi

cat >&2 <<'END'
find-postgres: the tests need the programs of a PostgreSQL server, and there are none.
  Debian, Ubuntu:  sudo apt-get install postgresql
  elsewhere:       install PostgreSQL 14 or newer, with initdb in PATH
  without it:      make test-short runs everything that needs only Go
END
exit 1
