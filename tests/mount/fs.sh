#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every way to read gives the same bytes, every way to write answers EROFS.
# shellcheck source=tests/mount/lib.sh
. "${top_srcdir:?run by make check}/tests/mount/lib.sh"

big=$tmp/big
look make_checkpoint "$big"
check 'a checkpoint of 6 MB' "$ZEROFS" mount "$big" "$mnt"
raw=$mnt/layer.0.weight.f32
cast=$mnt/as/bf16/layer.0.weight.bf16
bulk=$mnt/model.safetensors

check 'every system call that writes answers EROFS' look writes "$mnt" "$raw"
no_tool_writes() {
    for c in "touch $mnt/new" "touch -c $raw" "truncate -s 0 $raw" "mkdir $mnt/new" "rm -f $raw" "rmdir $mnt/npy" \
        "ln $raw $mnt/new" "ln -s x $mnt/new" "mv $raw $mnt/new" "chmod 777 $raw" "chown 1 $raw" "mkfifo $mnt/new" \
        "cp /etc/passwd $mnt/new"; do
        if $c 2>"$tmp/why"; then
            echo "worked: $c"
            return 1
        fi
        grep -q 'Read-only file system' "$tmp/why" || { echo "$c"; cat "$tmp/why"; return 1; }
    done
}
check 'and so do the tools' no_tool_writes
for file in "$raw" "$cast" "$bulk"; do
    f=${file#"$mnt"/}
    check "$f: every way to read gives the same bytes" look reads "$file" "$tmp/copy"
    check "$f: past the end, no bytes, negative and huge offsets" look edges "$file"
    check "$f: mapped shared and private" look maps "$file"
done
check '64 readers at once get the same bytes' look crowd "$mnt"
check '2000 files open at once' look many_open "$raw"
check 'a listing read in pieces, and from the middle' look listing "$mnt"
check 'control files: mapped, read with O_DIRECT, never stale' look control "$mnt"

check 'the file system is as large as its tensors' look space "$mnt"
check 'find' sh -c "find '$mnt' -type f | grep -q layer.11.weight.f32"
check 'cp -r' cp -r "$mnt" "$tmp/tree"
check 'the copy is the same' diff -r "$mnt" "$tmp/tree"
tar_same() {
    mkdir "$tmp/untar" && tar -C "$mnt" -cf - . | tar -C "$tmp/untar" -xf - && diff -r "$mnt" "$tmp/untar"
}
check 'tar' tar_same
dd_same() {
    for options in 'bs=4096' 'bs=37 skip=11 count=1000' 'bs=4M' 'bs=1M iflag=direct'; do
        # shellcheck disable=SC2086 # a list of words
        dd if="$raw" $options of="$tmp/one" status=none &&
            dd if="$tmp/tree/layer.0.weight.f32" ${options%iflag=direct} of="$tmp/other" status=none &&
            cmp "$tmp/one" "$tmp/other" || return 1
    done
}
check 'dd, also with O_DIRECT' dd_same
check 'cmp' cmp "$raw" "$tmp/tree/layer.0.weight.f32"
cat_same() {
    cat "$cast" "$bulk" >"$tmp/one"
    "$ZEROFS" cat "$big" as/bf16/layer.0.weight.bf16 model.safetensors | cmp - "$tmp/one"
}
check 'zerofs cat gives the same bytes' cat_same
check 'nothing grows while 100,000 requests are served' look growth "$mnt" "$(daemon_of "$mnt")"
check 'unmounted' unmount "$mnt"
finish
