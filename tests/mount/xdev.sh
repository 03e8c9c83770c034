#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Other file systems below a checkpoint, our own mount among them: never entered, never waited for.
# shellcheck source=tests/mount/lib.sh
. "${top_srcdir:?run by make check}/tests/mount/lib.sh"

one=$ZF_DATA/deepspeed/zero3_w2/global_step3
file=l1.weight.f32

# in_time SECONDS COMMAND...: it ends by itself; who is stuck in a file system cannot even be killed, so nobody waits.
in_time() {
    seconds=$1
    shift
    "$@" >"$tmp/found" 2>&1 </dev/null &
    pid=$!
    until_true "$seconds" ended "$pid" || { echo 'it does not end'; return 1; }
    wait "$pid"
    code=$?
    cat "$tmp/found"
    return $code
}

# ---- the mount point inside the run
run=$tmp/run
mkdir -p "$run/mnt"
for step in 3 20; do
    cp -r "$one" "$run/global_step$step"
done
echo global_step20 >"$run/latest"
check 'all saves, mounted inside the run' "$ZEROFS" mount -o all_tags "$run" "$run/mnt"
check 'what was written just now is opened soon' until_true 30 test -f "$run/mnt/global_step20/$file"
until_true 30 test -f "$run/mnt/global_step3/$file"
check 'walking it ends' in_time 20 find "$run/mnt" -maxdepth 2
check 'it shows the saves' grep -q "^$run/mnt/global_step20/$file\$" "$tmp/found"
check 'and not itself' sh -c '! grep -q mnt/mnt "$1"' sh "$tmp/found"
later() {
    cp -r "$one" "$run/global_step$1" && until_true 30 test -f "$run/mnt/global_step$1/$file"
}
check 'a save that comes later' later 100
check 'info of the run' in_time 20 "$ZEROFS" info "$run"
check 'and of one save' in_time 20 "$ZEROFS" ls -R -o tag=global_step3 "$run"
daemon=$(daemon_of "$run/mnt")
kill -STOP "$daemon"
check 'a mount that does not answer is not asked' in_time 20 "$ZEROFS" info "$run"
kill -CONT "$daemon"
check 'unmounted' unmount "$run/mnt"

check 'one save, mounted inside it' "$ZEROFS" mount "$run" "$run/mnt"
check 'walking that ends' in_time 20 ls -R "$run/mnt"
check 'unmounted' unmount "$run/mnt"
check 'not with -o xdev' refused 2 'cannot be inside the checkpoint' -o xdev "$run" "$run/mnt"
rm -r "$run/mnt"

# ---- somebody else's
mkdir "$run/global_step300" "$tmp/ckpt" "$tmp/ckpt/there" "$tmp/control"
other() {
    "$top_builddir/tests/mount/stall" "$1" "$tmp/control" "$2" && is_mounted "$2"
}
check 'another file system as a save' other "$one" "$run/global_step300"
passed_over() {
    "$ZEROFS" mount -o all_tags "$run" "$mnt" && ls "$mnt" && [ ! -e "$mnt/global_step300" ] && [ -e "$mnt/global_step3" ]
}
check 'is passed over' passed_over
check 'unmounted' unmount "$mnt"
check 'and refused by name, with the way out' says 5 'another file system.*-o xdev' "$ZEROFS" mount -o tag=global_step300 "$run" "$mnt"
entered() {
    "$ZEROFS" cat -f -o xdev -o tag=global_step300 "$run" "$file" >"$tmp/a" &&
        "$ZEROFS" cat -f -o tag=global_step3 "$run" "$file" >"$tmp/b" && cmp "$tmp/a" "$tmp/b"
}
check '-o xdev enters it' entered
cat_itself() {
    "$ZEROFS" cat -f "$run/global_step300" "$file" | cmp - "$tmp/b"
}
check 'the checkpoint itself may be a mount point' cat_itself
check 'unmounted' fusermount3 -u "$run/global_step300"

"$ZEROFS" export -q "$one" model.safetensors "$tmp/plain/"
check 'a shard on another file system' other "$tmp/plain" "$tmp/ckpt/there"
ln -s there/model.safetensors "$tmp/ckpt/model.safetensors"
check 'through a link: refused' says 3 'model.safetensors.*-o links' "$ZEROFS" mount "$tmp/ckpt" "$mnt"
linked() {
    "$ZEROFS" cat -f -o xdev "$tmp/ckpt" "$file" | cmp - "$tmp/b"
}
check 'but for -o xdev' linked
linked_anywhere() {
    mkdir "$tmp/elsewhere" && ln -s "$tmp/ckpt/there/model.safetensors" "$tmp/elsewhere/" &&
        says 3 'model.safetensors.*-o links' "$ZEROFS" mount "$tmp/elsewhere" "$mnt" &&
        says 3 'model.safetensors.*-o links' "$ZEROFS" mount -o xdev "$tmp/elsewhere" "$mnt" &&
        "$ZEROFS" mount -o links "$tmp/elsewhere" "$mnt" && cmp "$mnt/$file" "$tmp/b" && unmount "$mnt" &&
        ln -s elsewhere "$tmp/latest" && "$ZEROFS" mount -o links "$tmp/latest" "$mnt" && cmp "$mnt/$file" "$tmp/b" &&
        unmount "$mnt"
}
check '-o links goes wherever a link leads, also from a checkpoint that is one' linked_anywhere
named() {
    "$ZEROFS" cat -f "$tmp/ckpt/model.safetensors" "$file" | cmp - "$tmp/b"
}
check 'and when it is named itself' named
check 'unmounted' fusermount3 -u "$tmp/ckpt/there"

# ---- a Hugging Face cache is links within one file system
hub=$tmp/hub/models--org--name
mkdir -p "$hub/blobs" "$hub/snapshots/abc"
mv "$tmp/plain/model.safetensors" "$hub/blobs/0123"
ln -s ../../blobs/0123 "$hub/snapshots/abc/model.safetensors"
snapshot() {
    "$ZEROFS" cat -f "$hub/snapshots/abc" "$file" | cmp - "$tmp/b"
}
check 'a snapshot of a Hugging Face cache' snapshot
finish
