#!/bin/sh
# Checks the shell scripts: their syntax always, and with shellcheck where it is
# installed. In CI shellcheck is required, and installed if need be.
set -eu
cd "$(dirname "$0")/.."

for script in scripts/*.sh; do
	sh -n "$script"
done
bash -n .ci/run

if ! command -v shellcheck >/dev/null 2>&1 && [ -n "${CI:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends shellcheck; } >&2
fi
if command -v shellcheck >/dev/null 2>&1; then
	shellcheck scripts/*.sh .ci/run
	echo "shell scripts: syntax and shellcheck fine"
elif [ -n "${CI:-}" ]; then
	echo "check-shell: shellcheck is missing, and in CI it is required" >&2
	exit 1
else
	echo "shell scripts: syntax fine; shellcheck is not installed, so it was left out (apt-get install shellcheck)"
fi
