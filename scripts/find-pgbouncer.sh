#!/bin/sh
# Prints the path of pgbouncer, for the tests of several nodes behind a pooler: they
# run a private one. Without it Debian's package is installed where that is possible
# (as root, with apt-get), without leaving a service that runs, and otherwise the
# script says what to do and fails.
set -eu

find_pgbouncer() {
	PATH=$PATH:/usr/sbin command -v pgbouncer
}

find_pgbouncer && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "find-pgbouncer: no PgBouncer here; installing Debian's package" >&2
	if "$(dirname "$0")/install-quiet.sh" pgbouncer pgbouncer; then
		find_pgbouncer && exit 0
	fi
fi

cat >&2 <<'END'
find-pgbouncer: the tests of a pooler need PgBouncer, and there is none.
  Debian, Ubuntu:  sudo apt-get install pgbouncer
  elsewhere:       install PgBouncer 1.18 or newer into PATH
  without it:      make test-short runs everything that needs only Go
END
exit 1
