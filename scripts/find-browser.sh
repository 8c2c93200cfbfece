#!/bin/sh
# Prints the path of a Chromium, for the test of the web page. Without one it
# installs Debian's package where that is possible (as root, with apt-get), and
# otherwise says what to do and fails.
set -eu

find_browser() {
	if [ -n "${IMPART_BROWSER:-}" ]; then
		command -v "$IMPART_BROWSER" && return 0
		echo "find-browser: IMPART_BROWSER is '$IMPART_BROWSER', which cannot be run" >&2
		exit 1
	fi
	for name in chromium chromium-browser google-chrome google-chrome-stable; do
		command -v "$name" && return 0
	done
	return 1
}

find_browser && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "find-browser: no Chromium here; installing Debian's package" >&2
	{
		apt-get update -qq &&
			DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium
	} >&2
	find_browser && exit 0
fi

cat >&2 <<'END'
find-browser: the test of the web page needs Chromium, and there is none.
  Debian, Ubuntu:  sudo apt-get install chromium
  elsewhere:       install Chrome or Chromium and set IMPART_BROWSER to its path
  without it:      make test-short runs everything that needs only Go
END
exit 1
