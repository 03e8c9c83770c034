#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The house rules, as tests.
: "${top_srcdir:?run by make check}" "${top_builddir:?run by make check}"
n=0

check() {
    n=$((n + 1))
    what=$1
    shift
    if out=$("$@" 2>&1); then
        echo "ok $n - $what"
    else
        echo "not ok $n - $what"
        echo "$out" | sed 's/^/# /'
    fi
}

# Names of every option and limit stand in the manual.
manual_is_complete() {
    sed -n 's/^OPT("\([a-z_]*\)".*/\1/p' "$top_srcdir/src/cmd/options.def" | while read -r option; do
        grep -qs "$option" "$top_srcdir/man/zerofs-mount.1" || echo "zerofs-mount.1 lacks the option $option"
    done
    sed -n 's/^ *X(\([a-z_]*\),.*/\1/p' "$top_srcdir/include/zf/base/limits.h" | while read -r limit; do
        grep -qs "$limit" "$top_srcdir/man/zerofs.1" || echo "zerofs.1 lacks the limit $limit"
    done
}
manual() {
    lacks=$(manual_is_complete)
    echo "$lacks"
    [ -z "$lacks" ]
}

scripts_are_sound() {
    shellcheck -x -P "$top_srcdir" "$top_srcdir"/scripts/quickstart "$top_srcdir"/scripts/test* \
        "$top_srcdir"/scripts/check-* "$top_srcdir"/scripts/bootstrap "$top_srcdir"/.ci/run
}

check 'includes follow the arrows' "$top_srcdir/scripts/check-layers"
check 'headers compile alone, files say their licence' "$top_srcdir/scripts/check-headers"
check 'no file or function is too long' "$top_srcdir/scripts/check-length"
check 'rooms show only what they mean to' "$top_srcdir/scripts/check-symbols" "$top_builddir"
check 'every format has its source, tests and page' "$top_srcdir/scripts/check-formats"
check 'the manual lists every option and limit' manual
if command -v shellcheck >/dev/null 2>&1; then
    check 'scripts are sound' scripts_are_sound
else
    n=$((n + 1))
    echo "ok $n # SKIP shellcheck is not installed"
fi
if command -v mandoc >/dev/null 2>&1; then
    check 'man pages are well formed' mandoc -T lint -W warning "$top_srcdir"/man/*.[0-9]
else
    n=$((n + 1))
    echo "ok $n # SKIP mandoc is not installed"
fi
echo "1..$n"
