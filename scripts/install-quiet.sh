#!/bin/sh
# Installs Debian packages whose service is not wanted: none is started, now or at the
# next boot. For the find-….sh scripts, as root and with apt-get.
#   install-quiet.sh SERVICE PACKAGE…
set -eu
service=$1
shift

# A package starts its service unless this file forbids it.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod +x "$policy"
fi
{
	apt-get update -qq &&
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
} >&2
if [ -d /run/systemd/system ]; then
	systemctl disable --quiet "$service" >&2 || true
fi
