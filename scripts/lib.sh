# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# What the scripts share; sourced from the top of the tree.

say() {
    printf '\n== %s\n' "$*"
}

# The package manager that is here: apt-get, dnf, zypper, pacman, apk, or nothing.
package_manager() {
    for m in apt-get dnf zypper pacman apk; do
        if command -v $m >/dev/null 2>&1; then
            echo $m
            return
        fi
    done
}

# packages MANAGER KIND: what a bare system lacks, under that manager's names.  KIND is `build` (from a release
# tarball), `bootstrap` (on top of that from a clone), `test`, `quickstart`, or one of those that only one script needs.
packages() {
    case $1:$2 in
    apt-get:build) echo gcc libc6-dev make pkg-config libfuse3-dev fuse3 libzip-dev zlib1g-dev uthash-dev libjansson-dev \
        nettle-dev libpcre2-dev libzstd-dev libblosc-dev liblz4-dev libdeflate-dev libyaml-dev libcurl4-openssl-dev libexpat1-dev libgnutls28-dev ;;
    apt-get:bootstrap) echo autoconf automake libtool ;;
    apt-get:test) echo libcmocka-dev python3 python3-numpy python3-botocore attr mandoc shellcheck nginx-light openssl codespell ;;
    apt-get:tidy) echo clang-tidy-14 ;;
    apt-get:quickstart) echo bsdextrautils ;;
    apt-get:venv) echo python3-venv ;;
    apt-get:musl) echo musl-tools linux-libc-dev ;;
    apt-get:arm64) echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user libfuse3-dev:arm64 libzip-dev:arm64 \
        zlib1g-dev:arm64 uthash-dev:arm64 libjansson-dev:arm64 nettle-dev:arm64 libpcre2-dev:arm64 libzstd-dev:arm64 libblosc-dev:arm64 liblz4-dev:arm64 libdeflate-dev:arm64 libyaml-dev:arm64 \
        libcurl4-openssl-dev:arm64 libexpat1-dev:arm64 libgnutls28-dev:arm64 libcmocka-dev:arm64 ;;
    dnf:build) echo gcc glibc-devel make pkgconf-pkg-config fuse3-devel fuse3 libzip-devel zlib-devel uthash-devel \
        jansson-devel nettle-devel pcre2-devel libzstd-devel blosc-devel lz4-devel libdeflate-devel libyaml-devel libcurl-devel expat-devel gnutls-devel ;;
    dnf:bootstrap) echo autoconf automake libtool ;;
    dnf:test) echo libcmocka-devel python3 python3-numpy python3-botocore attr mandoc ShellCheck nginx-core openssl ;;
    dnf:quickstart) echo util-linux ;;
    zypper:build) echo gcc glibc-devel make pkg-config fuse3-devel fuse3 libzip-devel zlib-devel uthash-devel \
        libjansson-devel libnettle-devel pcre2-devel libzstd-devel blosc-devel liblz4-devel libdeflate-devel libyaml-devel libcurl-devel libexpat-devel libgnutls-devel ;;
    zypper:bootstrap) echo autoconf automake libtool ;;
    zypper:test) echo libcmocka-devel python3 python3-numpy python3-botocore attr mandoc ShellCheck nginx openssl ;;
    zypper:quickstart) echo util-linux ;;
    pacman:build) echo gcc make pkgconf fuse3 libzip zlib uthash jansson nettle pcre2 zstd blosc lz4 libdeflate libyaml curl expat gnutls ;;
    pacman:bootstrap) echo autoconf automake libtool ;;
    pacman:test) echo cmocka python python-botocore attr mandoc shellcheck nginx openssl ;;
    pacman:quickstart) echo util-linux ;;
    apk:build) echo gcc musl-dev linux-headers make pkgconf fuse3-dev fuse3 libzip-dev zlib-dev uthash-dev jansson-dev \
        nettle-dev pcre2-dev zstd-dev blosc-dev lz4-dev libdeflate-dev yaml-dev curl-dev expat-dev gnutls-dev ;;
    apk:bootstrap) echo autoconf automake libtool ;;
    apk:test) echo cmocka-dev python3 py3-numpy py3-botocore attr mandoc shellcheck coreutils nginx openssl ;;
    apk:quickstart) echo util-linux-misc ;;
    *:copy) echo rsync ;;
    *:numactl) echo numactl ;;
    esac
}

package_installed() {
    case $1 in
    apt-get) dpkg-query -W -f='${Status}' "$2" 2>/dev/null | grep -q 'install ok installed' ;;
    dnf | zypper) rpm -q --whatprovides "$2" >/dev/null 2>&1 ;;
    pacman) pacman -Qq "$2" >/dev/null 2>&1 ;;
    apk) apk info -e "$2" >/dev/null 2>&1 ;;
    esac
}

install_command() {
    case $1 in
    apt-get) echo 'env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends' ;;
    dnf) echo 'dnf install -y -q' ;;
    zypper) echo 'zypper --non-interactive --quiet install' ;;
    pacman) echo 'pacman -S --noconfirm --needed' ;;
    apk) echo 'apk add --quiet' ;;
    esac
}

# What may be missing where the packages cannot be had.
install_hint() {
    case $1 in
    dnf) echo "on RHEL 9 and its kin, EPEL and CRB first: dnf install epel-release && dnf config-manager --set-enabled crb" ;;
    zypper) echo "on SLES 15, the Package Hub and Development Tools modules first: SUSEConnect --list-extensions" ;;
    esac
}

# install_packages KIND...: the packages of those kinds that are missing; where they cannot be installed, prints the
# one command that would.
install_packages() {
    manager=$(package_manager)
    if [ -z "$manager" ]; then
        echo "no package manager known here; what is needed is, by Debian's names:" >&2
        for kind; do echo "    $(packages apt-get "$kind")" >&2; done
        return 1
    fi
    missing=
    for kind; do
        for p in $(packages "$manager" "$kind"); do
            package_installed "$manager" "$p" || missing="$missing $p"
        done
    done
    [ -n "$missing" ] || return 0
    as_root=
    if [ "$(id -u)" != 0 ]; then
        as_root=sudo
        command -v sudo >/dev/null 2>&1 || { echo "as root: $(install_command "$manager")$missing" >&2; return 1; }
    fi
    say "installing$missing"
    [ "$manager" != apt-get ] || $as_root apt-get update -qq
    # shellcheck disable=SC2046,SC2086 # lists of words
    if ! $as_root $(install_command "$manager") $missing >/dev/null; then
        echo "could not install them: $(install_command "$manager")$missing" >&2
        install_hint "$manager" >&2
        return 1
    fi
}

# What it takes to build: configure is there in a release tarball, not in a clone.
build_kinds() {
    if [ -x configure ]; then echo build; else echo build bootstrap; fi
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

# How many tests run at a time: many of them wait most of their time, for a server, a mount, or a limit to pass.
test_jobs() {
    echo $(($(nproc) * 2))
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
