#!/bin/sh
# Prints the folder of redis-server and redis-cli, for the tests and the fault lab:
# they run private servers of their own. Without them it installs Debian's packages
# where that is possible (as root, with apt-get), without leaving a service that runs,
# and otherwise says what to do and fails.
set -eu

find_redis() {
	server=$(command -v redis-server) && command -v redis-cli >/dev/null && dirname "$server"
}

find_redis && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "find-redis: no Redis server here; installing Debian's package" >&2
	if "$(dirname "$0")/install-quiet.sh" redis-server redis-server redis-tools; then
		find_redis && exit 0
	fi
fi

cat >&2 <<'END'
find-redis: the tests need redis-server and redis-cli, and there are none.
  Debian, Ubuntu:  sudo apt-get install redis-server
  elsewhere:       install Redis 7 or Valkey 7.2 (as redis-server, redis-cli) into PATH
  without it:      make test-short runs everything that needs only Go
END
exit 1
