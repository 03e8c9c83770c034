#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One shard that hangs, and many readers that wait for it: nothing else waits.
# shellcheck source=tests/mount/lib.sh
. "${top_srcdir:?run by make check}/tests/mount/lib.sh"

mkdir "$tmp/files" "$tmp/control" "$tmp/slow"
# libfuse before 3.12 makes as many threads as it needs, and does not know the option.
threads='-o max_threads=200'
"$top_builddir/tests/mount/stall" . . --help 2>&1 | grep -q max_threads || threads=
# shellcheck disable=SC2086 # none or two words
"$top_builddir/tests/mount/stall" "$tmp/files" "$tmp/control" "$tmp/slow" -f $threads &
pids="$pids $!"
until_true 20 is_mounted "$tmp/slow" || skip_all 'the slow file system does not come up'
look make "$tmp/files" || exit 99

check 'mounted' "$ZEROFS" mount "$tmp/slow" "$mnt"
for readers in 64 100 1000; do
    check "$readers readers of a shard that hangs" look hangs "$mnt" "$tmp/control" $readers
done
check 'a reader that waits can be killed' look killed "$mnt" "$tmp/control"
check 'all is served afterwards' look right "$mnt"
check 'unmounted' unmount "$mnt"

# What is damaged is not cached, and its reads tell of signals.
rm "$tmp"/files/*
look make "$tmp/files" 1000 || exit 99
check 'with a damaged tensor' "$ZEROFS" mount "$tmp/slow" "$mnt" -o degraded
check 'a reader of it can be killed' look killed "$mnt" "$tmp/control" direct
check 'one that handles a signal goes on waiting' look interrupted "$mnt" "$tmp/control"
check 'unmounted' unmount "$mnt"

# hf/ is worked out when it is first looked into, and its settings hang.
rm "$tmp"/files/*
cp "$top_srcdir/tests/data/recipes/meta_llama3_mp2"/*.* "$tmp/files"
check 'mounted' "$ZEROFS" mount "$tmp/slow" "$mnt"
check '400 look into hf/ while its settings hang' look works_out "$mnt" "$tmp/control" 400
check 'unmounted' unmount "$mnt"
rm "$tmp"/files/*
for tree in all_tags:step-1 current,poll=1:current; do
    mkdir "$tmp/files/step-1"
    cp -p "$top_srcdir/tests/data/recipes/meta_llama3_mp2"/*.* "$tmp/files/step-1"
    touch -d '1 hour ago' "$tmp/files/step-1"/* "$tmp/files/step-1"
    check "mounted with ${tree%:*}" "$ZEROFS" mount "$tmp/slow" "$mnt" -o "${tree%:*}"
    until_true 30 test -e "$mnt/${tree#*:}/norm.weight.f32"
    check "200 look into hf/ of ${tree#*:}/" look works_out "$mnt/${tree#*:}" "$tmp/control" 200
    check 'unmounted' unmount "$mnt"
    rm -r "$tmp/files/step-1"
done
look make "$tmp/files" 1000 || exit 99

# The storage hangs while the checkpoint is opened, and whoever waits for the mount gives up.
command_gives_up() {
    : >"$tmp/control/open.model-00002-of-00004.safetensors"
    "$ZEROFS" mount "$tmp/slow" "$mnt" 2>/dev/null &
    command=$!
    pids="$pids $command"
    until_true 20 test -e "$tmp/control/waits.open.model-00002-of-00004.safetensors" || return 1
    kill "-$1" "$command"
    wait "$command"
    rm "$tmp/control/open.model-00002-of-00004.safetensors"
    until_true 20 nobody_for "$mnt" && not_mounted "$mnt"
}
nobody_for() {
    [ -z "$(processes_of "$1")" ]
}

check 'with seven threads for shards' "$ZEROFS" mount "$tmp/slow" "$mnt" -o degraded,max_threads=7
check 'all of which wait: metadata' look hangs_everywhere "$mnt" "$tmp/control"
check 'unmounted' unmount "$mnt"
check 'with one thread for shards' "$ZEROFS" mount "$tmp/slow" "$mnt" -o degraded,max_threads=1
check 'metadata and what needs no shard' look hangs_alone "$mnt" "$tmp/control"
check 'SIGTERM while reads wait' look ended "$mnt" "$tmp/control" "$(daemon_of "$mnt")"
check 'nothing is mounted' until_true 30 not_mounted "$mnt"
for signal in TERM KILL; do
    check "the command gets SIG$signal while the storage hangs: nothing is mounted later" command_gives_up "$signal"
done
fusermount3 -u "$tmp/slow"
finish
