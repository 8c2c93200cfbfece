#!/bin/sh
# Runs every fuzz test of the module in turn, each for the time given (default
# 30s). Go can fuzz only one target at a time.
set -eu
cd "$(dirname "$0")/.."
time=${1:-30s}

targets=$(grep -rnoE '^func Fuzz[A-Za-z0-9_]*\(' --include='*_test.go' . |
	sed -E 's|^(.*)/[^/]*:[0-9]+:func (Fuzz[A-Za-z0-9_]*)\($|\1 \2|')
if [ -z "$targets" ]; then
	echo "fuzz: no fuzz test found" >&2
	exit 1
fi
echo "$targets" | while read -r folder target; do
	echo "fuzz: $folder $target for $time"
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$folder" </dev/null
done
echo "fuzz: $(echo "$targets" | wc -l) targets, nothing found"
