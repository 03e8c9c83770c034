#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A save that is replaced by another one while it is opened: one of the two or a refusal, never some of each.
# shellcheck source=tests/mount/lib.sh
. "${top_srcdir:?run by make check}/tests/mount/lib.sh"

# $tmp/slow shows $tmp/files, and waits where $tmp/control says so.
mkdir "$tmp/files" "$tmp/control" "$tmp/slow" "$tmp/dest"
"$top_builddir/tests/mount/stall" "$tmp/files" "$tmp/control" "$tmp/slow" -f &
pids="$pids $!"
until_true 20 is_mounted "$tmp/slow" || skip_all 'the slow file system does not come up'
control=$tmp/control

# publish WHICH: all files of a save, each renamed over the one before it.
publish() {
    for f in "$tmp/$1"/*; do
        cp "$f" "$tmp/files/.new" && mv "$tmp/files/.new" "$tmp/files/${f##*/}" || return 1
    done
}
start() {
    publish first && : >"$control/open.$second" && {
        "$@" >"$tmp/out" 2>"$tmp/err" </dev/null &
        pid=$!
    } && until_true 30 test -e "$control/waits.open.$second"
}
first=model-00001-of-00002.safetensors
second=model-00002-of-00002.safetensors
for salt in first second; do
    look make "$tmp/$salt" $salt || exit 99
done

# once COMMAND...: the second save comes when the first shard of the first one is open already.
once() {
    start "$@" && publish second
    rm "$control/open.$second"
    status_of "$pid"
    code=$?
    cat "$tmp/out" "$tmp/err"
    return $code
}
check 'mount, replaced once' once "$ZEROFS" mount "$tmp/slow" "$mnt"
check 'all is the second save' look shows second "$mnt"
check 'unmounted' unmount "$mnt"
check 'export' once "$ZEROFS" export -q "$tmp/slow" / "$tmp/dest"
check 'all is the second save' look shows second "$tmp/dest"
check 'info' once "$ZEROFS" info --json "$tmp/slow"
check 'ls' once "$ZEROFS" ls -R "$tmp/slow"
check 'cat' once "$ZEROFS" cat -f "$tmp/slow" b.0.f32
check 'shows the second save' cmp "$tmp/out" "$tmp/dest/b.0.f32"

# twice COMMAND...: and the first one again when it is looked at again.
twice() {
    start "$@" && publish second && : >"$control/open.$first"
    rm "$control/open.$second"
    until_true 30 test -e "$control/waits.open.$first" && publish first
    rm "$control/open.$first"
    status_of "$pid"
    code=$?
    cat "$tmp/out" "$tmp/err"
    [ $code = 5 ] && [ ! -s "$tmp/out" ] && [ "$(wc -l <"$tmp/err")" = 1 ] &&
        grep -q "^zerofs: $tmp/slow/.*: the checkpoint is being written" "$tmp/err"
}
check 'mount, replaced twice: refused' twice "$ZEROFS" mount "$tmp/slow" "$mnt"
check 'nothing is mounted' not_mounted "$mnt"
check 'info' twice "$ZEROFS" info "$tmp/slow"
check 'ls' twice "$ZEROFS" ls -R "$tmp/slow"
check 'cat' twice "$ZEROFS" cat -f "$tmp/slow" b.0.f32
check 'export' twice "$ZEROFS" export -q "$tmp/slow" / "$tmp/dest2"

# A file that comes is a change, one that comes in the directory above is none.
comes() {
    start "$ZEROFS" ls -R "$tmp/slow" && : >"$tmp/files/model-00003-of-00002.safetensors" && : >"$control/open.$first"
    rm "$control/open.$second"
    until_true 30 test -e "$control/waits.open.$first" && rm "$tmp/files/model-00003-of-00002.safetensors"
    rm "$control/open.$first"
    status_of "$pid"
    [ $? = 5 ] && grep -q 'being written' "$tmp/err"
}
check 'a file that comes and goes' comes
check 'left alone it opens' "$ZEROFS" ls -R "$tmp/slow"
fusermount3 -u "$tmp/slow"
finish
