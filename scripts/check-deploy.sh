#!/bin/sh
# Checks the files in deploy/ with what reads them: chart, compose file, alert rules and
# dashboard with the libraries of Helm, Compose and Prometheus, and the units with
# systemd-analyze where it is installed. In CI that is required, and installed if need be.
set -eu
cd "$(dirname "$0")/.."

"${GO:-go}" build -C tools/deploy -o ../../bin/deploy-check .
bin/deploy-check -C .

if ! command -v systemd-analyze >/dev/null 2>&1 && [ -n "${CI:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends systemd; } >&2
fi
if ! command -v systemd-analyze >/dev/null 2>&1; then
	if [ -n "${CI:-}" ]; then
		echo "check-deploy: systemd-analyze is missing, and in CI it is required" >&2
		exit 1
	fi
	echo "units: not checked, since systemd-analyze is not installed (apt-get install systemd)"
	exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for unit in deploy/systemd/*.service; do
	# Of a template one instance is checked; the program need not be installed.
	name=$(basename "$unit" | sed 's/@/@1/')
	sed 's#^ExecStart=/usr/local/bin/impart#ExecStart=/bin/true#' "$unit" >"$folder/$name"
done
# It ends with 0 for a key that it does not know, and only says so.
if ! said=$(systemd-analyze verify "$folder"/*.service 2>&1) || [ -n "$said" ]; then
	echo "$said" >&2
	exit 1
fi
echo "units: $(find "$folder" -name '*.service' | wc -l) as systemd understands them"
