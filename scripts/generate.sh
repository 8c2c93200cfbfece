#!/bin/sh
# Writes internal/rpc/impartpb anew from proto/; with --check it only compares, and
# fails where what is committed is not what would be written.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
buf=$("$here/scripts/find-buf.sh")
work=$here/.cache/proto
made=$work/out/impart/v1
kept=$here/internal/rpc/impartpb

rm -rf "$work/out"
mkdir -p "$work"
for plugin in google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc; do
	"${GO:-go}" build -C "$here/tools" -o "$work/" "$plugin"
done
cd "$here/proto"
"$buf" lint
"$buf" format --diff --exit-code
"$buf" generate

if [ "${1:-}" = --check ]; then
	for file in "$made"/*.go; do
		if ! diff -u "$kept/$(basename "$file")" "$file"; then
			echo "generate: $(basename "$file") is not what proto/ gives: run make generate" >&2
			exit 1
		fi
	done
	exit 0
fi
cp "$made"/*.go "$kept/"
