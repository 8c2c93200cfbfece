#!/bin/sh
# Prints where haproxy is, for the test of the compose file's balancer. Without it, it
# installs Debian's package where that is possible (as root, with apt-get), without
# leaving a service that runs, and otherwise says what to do and fails.
set -eu

find_haproxy() {
	command -v haproxy || { [ -x /usr/sbin/haproxy ] && echo /usr/sbin/haproxy; }
}

find_haproxy && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "find-haproxy: no haproxy here; installing Debian's package" >&2
	if "$(dirname "$0")/install-quiet.sh" haproxy haproxy; then
		find_haproxy && exit 0
	fi
fi

cat >&2 <<'END'
find-haproxy: the test of the compose file needs haproxy, and there is none.
  Debian, Ubuntu:  sudo apt-get install haproxy
  without it:      make test-short runs everything that needs only Go
END
exit 1
