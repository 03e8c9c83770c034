#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Storage with latency: a reader that goes through a file gets what the line can carry, though the file is made of
# shards; one that jumps about costs what it reads.
# shellcheck source=tests/mount/lib.sh
. "${top_srcdir:?run by make check}/tests/mount/lib.sh"

mkdir "$tmp/files" "$tmp/slow"
look make "$tmp/files" || exit 99
rate=100000000

# slow NAME LATENCY: shows the files at $tmp/NAME.
slow() {
    mkdir -p "$tmp/$1"
    "$top_builddir/tests/mount/slow" "$tmp/files" "$tmp/$1.counts" "$tmp/$1" "$2" $rate -f $threads &
    pids="$pids $!"
    until_true 20 is_mounted "$tmp/$1" || skip_all 'the slow file system does not come up'
}
threads='-o max_threads=64'
"$top_builddir/tests/mount/slow" . /dev/null . 1 1 --help 2>&1 | grep -q max_threads || threads=

# Without being told ahead the kernel gets a third of it; the rest to the whole is the beginning, and room for a busy
# machine.
slow far 10000
check 'mounted' "$ZEROFS" mount "$tmp/far" "$mnt"
check 'one reader has the line' look whole "$mnt" $rate 0.45
sed 's/^/# /' "$tmp/said"
check 'unmounted' unmount "$mnt"
fusermount3 -u "$tmp/far"

slow near 2000
check 'mounted' "$ZEROFS" mount "$tmp/near" "$mnt"
check 'a reader that jumps gets nothing ahead' look jumps "$mnt" "$tmp/near.counts" 4
sed 's/^/# /' "$tmp/said"
check 'unmounted' unmount "$mnt"
fusermount3 -u "$tmp/near"

slow hangs 2000
check 'mounted' "$ZEROFS" mount "$tmp/hangs" "$mnt"
check 'a shard that hangs while it is told ahead holds up no other' look others "$mnt" "$tmp/hangs.counts" 20
check 'unmounted' unmount "$mnt"
fusermount3 -u "$tmp/hangs"
finish
