# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# What the tests of a live mount share; sourced.  Gives $tmp (private, removed at the end whatever happens),
# $mnt (an empty directory in it), check, mount_at, and skips the whole test where nothing can be mounted.
: "${ZEROFS:?run by make check}" "${ZF_DATA:?}" "${top_srcdir:?}" "${top_builddir:?}"
set -u
umask 022
LC_ALL=C
export LC_ALL
n=0
pids=
tmp=$(mktemp -d "${TMPDIR:-/tmp}/zerofs-test.XXXXXX") || exit 99
tmp=$(cd "$tmp" && pwd -P)
mnt=$tmp/mnt
here=$(cd "$(dirname "$0")" && pwd) # scripts change directory, and make calls them by a relative path
mkdir "$mnt"
# shellcheck disable=SC2034 # used by life.sh

# Mount points below $tmp, the inner ones first.
mounted_below_tmp() {
    awk -v top="$tmp/" 'index($2, top) == 1 { print $2 }' /proc/self/mounts | sort -r
}

# A mount is taken off without asking its daemon, which may hang or be dead.
cleanup() {
    trap '' HUP INT TERM
    cd /
    mounted_below_tmp | while read -r m; do
        m=$(printf '%b' "$m")
        fusermount3 -uz "$m" 2>/dev/null || umount -l "$m" 2>/dev/null
    done
    for p in $pids; do
        kill -9 "$p" 2>/dev/null
    done
    rm -rf --one-file-system "$tmp"
}
trap cleanup EXIT
trap 'exit 99' HUP INT TERM

skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

skip() {
    n=$((n + 1))
    echo "ok $n - $1 # SKIP $2"
}

# check WHAT COMMAND...: one test; what the command said is shown when it fails.
check() {
    n=$((n + 1))
    what=$1
    shift
    if "$@" >"$tmp/said" 2>&1; then
        echo "ok $n - $what"
    else
        echo "not ok $n - $what"
        sed 's/^/# /' "$tmp/said"
    fi
}

# look FUNCTION ARGUMENTS: a check written in Python, of the script's own file in look/.
look() {
    name=${0##*/}
    timeout --foreground 900 python3 -B "$here/look/${name%.sh}.py" "$@"
}

# until_true SECONDS COMMAND...: polls; fails when the time is over.
until_true() {
    tries=$(($1 * 20))
    shift
    while ! "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.05
    done
}

is_mounted() {
    awk -v m="$1" '$2 == m { found = 1 } END { exit !found }' /proc/self/mounts
}

not_mounted() {
    ! is_mounted "$1"
}

# Pids of the processes of the mount point $1, found by their command line: it is private to this test.
processes_of() {
    grep -lszxF -e "$1" /proc/[0-9]*/cmdline | while IFS=/ read -r _ _ p _; do
        case $(readlink "/proc/$p/exe") in
        */zerofs) echo "$p" ;;
        esac
    done
}

# The one that serves, and the one that stays beside it.
daemon_of() {
    for p in $(processes_of "$1"); do
        [ "$(cat "/proc/$p/comm")" = fuse-guard ] || echo "$p"
    done
}
supervisor_of() {
    for p in $(processes_of "$1"); do
        [ "$(cat "/proc/$p/comm")" != fuse-guard ] || echo "$p"
    done
}

ended() {
    ! kill -0 "$1" 2>/dev/null || grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null
}

# status_of PID: the exit code of a child of the shell, which gets a minute to end and is killed then.
status_of() {
    until_true 60 ended "$1" || { echo "process $1 did not end"; kill -9 "$1"; }
    wait "$1"
}

# The daemon ends after its mount is gone; a test that is over must not leave it behind.
unmount() {
    served_by=$(processes_of "$1")
    "$ZEROFS" umount "$1" || return 1
    for p in $served_by; do
        until_true 60 ended "$p" || return 1
    done
}

# says CODE REGEX COMMAND...: exit code CODE, nothing on stdout, and on stderr exactly one sentence, or a sentence and
# the hint at --help, that matches REGEX.
says() {
    code=$1
    regex=$2
    shift 2
    "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
    cat "$tmp/out" "$tmp/err"
    [ "$got" = "$code" ] || { echo "exit code $got, expected $code"; return 1; }
    [ ! -s "$tmp/out" ] || { echo 'something was printed on stdout'; return 1; }
    grep -v -e '^Try ' -e '^fusermount3: ' "$tmp/err" >"$tmp/sentence"
    [ "$(wc -l <"$tmp/sentence")" = 1 ] || { echo 'expected one sentence'; return 1; }
    grep -qE -e "$regex" "$tmp/sentence" || { echo "expected /$regex/"; return 1; }
}

# refused CODE REGEX ARGUMENTS: `zerofs mount` says so, and nothing is mounted.
refused() {
    code=$1
    regex=$2
    shift 2
    says "$code" "$regex" "$ZEROFS" mount "$@" && [ -z "$(mounted_below_tmp)" ]
}

# A test that hangs is ended after an hour: killed daemons fail whoever waits for them, and the shell gets its turn.
not_for_ever() {
    timeout 3600 tail --pid=$$ -f /dev/null
    [ $? = 124 ] || return
    kill -TERM $$
    for m in "$mnt" $(mounted_below_tmp); do
        for p in $(processes_of "$m"); do
            kill -9 "$p"
        done
    done
}
not_for_ever >/dev/null 2>&1 </dev/null &

# What a daemon has to say to a memory checker goes to files: its stderr is /dev/null.
for tool in ASAN LSAN UBSAN TSAN; do
    eval "export ${tool}_OPTIONS=\"\${${tool}_OPTIONS:+\$${tool}_OPTIONS:}log_path=$tmp/report\""
done

no_reports() {
    for f in "$tmp"/report*; do
        [ -f "$f" ] && cat "$f"
    done | head -60 >"$tmp/reports"
    cat "$tmp/reports"
    [ ! -s "$tmp/reports" ]
}

finish() {
    check 'memory and thread checkers found nothing' no_reports
    echo "1..$n"
}

# Whether the system lets anybody mount is asked without zerofs, so that its own failures are none of these.
if [ -z "${NO_MOUNT:-}" ]; then
    [ -c /dev/fuse ] || skip_all '/dev/fuse is missing'
    [ -r /proc/self/mounts ] || skip_all '/proc is not mounted'
    why=$(python3 -B "$top_srcdir/tests/mount/look/can_mount.py" "$mnt" 2>&1) || skip_all "$why"
fi
