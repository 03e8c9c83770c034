# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# What the scripts share; sourced from the top of the tree.

# What a bare Debian 12 lacks to build zerofs, and on top of that to test it.
BUILD_PACKAGES='autoconf automake libtool pkg-config gcc libc6-dev make libfuse3-dev fuse3 libzip-dev zlib1g-dev
uthash-dev libjansson-dev nettle-dev libzstd-dev'
TEST_PACKAGES='libcmocka-dev python3 attr mandoc shellcheck valgrind clang-format'

say() {
    printf '\n== %s\n' "$*"
}

# install_packages NAMES: those that are missing, with apt-get; says what to do where that cannot be.
install_packages() {
    missing=
    for p in $1; do
        dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
    done
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "this is no Debian: install what corresponds to$missing" >&2
        return 1
    fi
    as_root=
    if [ "$(id -u)" != 0 ]; then
        as_root=sudo
        command -v sudo >/dev/null 2>&1 || { echo "as root: apt-get install$missing" >&2; return 1; }
    fi
    say "installing$missing"
    $as_root apt-get update -qq
    # shellcheck disable=SC2086 # a list of words
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# build DIR [configure arguments]: configures once and makes.
build() {
    dir=$1
    shift
    [ -x configure ] || ./scripts/bootstrap
    mkdir -p "$dir"
    [ -f "$dir/Makefile" ] || (cd "$dir" && ../configure --quiet "$@")
    make -C "$dir" -j"$(nproc)" --no-print-directory
}

# summary LOG: automake's counts as one line, "N passed, N failed, N skipped"; fails when a test did, or none ran.
summary() {
    awk '
        /^# PASS:/ { pass += $3 }
        /^# (FAIL|XPASS|ERROR):/ { fail += $3 }
        /^# (SKIP|XFAIL):/ { skip += $3 }
        END {
            printf "%d passed, %d failed, %d skipped\n", pass, fail, skip
            exit !(pass > 0 && fail == 0)
        }' "$1"
}
