#!/bin/sh
# Prints where spin and a C compiler are, as flags for the model. Without them it
# installs Debian's packages where that is possible (as root, with apt-get), and
# otherwise says what to do and fails.
set -eu

# There are other programs called spin.
find_spin() {
	spin=$(command -v spin) && "$spin" -V 2>/dev/null | grep -q '^Spin Version'
}

# A compiler without the headers of the C library is none.
find_cc() {
	for name in cc gcc clang; do
		if cc=$(command -v "$name") && echo '#include <stdio.h>' | "$cc" -E -x c - >/dev/null 2>&1; then
			return 0
		fi
	done
	return 1
}

found() {
	find_spin && find_cc && echo "-spin $spin -cc $cc"
}

found && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "find-spin: no spin or no C compiler here; installing Debian's packages" >&2
	{
		apt-get update -qq &&
			DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends spin gcc libc6-dev
	} >&2
	found && exit 0
fi

cat >&2 <<'END'
find-spin: the model needs spin and a C compiler, and one of them is missing.
  Debian, Ubuntu:  sudo apt-get install spin gcc libc6-dev
  elsewhere:       build spin from its source, https://spinroot.com
  without them:    make test-short runs everything that needs only Go
END
exit 1
