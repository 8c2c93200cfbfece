#!/bin/sh
# Checks the files of the web page: scripts parse (where Node is installed), and
# no file loads anything from elsewhere, which the page's own policy forbids.
set -eu
cd "$(dirname "$0")/../web/static"

outside=$(grep -rnE '(src|href|url\(|import .*from|@import|fetch\()[ =("'"'"']*https?://' . || true)
if [ -n "$outside" ]; then
	echo "check-assets: these load from elsewhere:" >&2
	echo "$outside" >&2
	exit 1
fi
inline=$(grep -rnE '<script>|<style>| on[a-z]+="|style="' --include='*.html' . || true)
if [ -n "$inline" ]; then
	echo "check-assets: inline scripts and styles are blocked by the page's policy:" >&2
	echo "$inline" >&2
	exit 1
fi
if command -v node >/dev/null 2>&1; then
	find . -name '*.js' | while read -r script; do
		node --input-type=module --check <"$script" || {
			echo "check-assets: $script does not parse" >&2
			exit 1
		}
	done
	echo "web files: nothing from elsewhere, nothing inline, scripts parse"
else
	echo "web files: nothing from elsewhere, nothing inline; Node is not installed, so scripts were not parsed (the browser test runs them)"
fi
