#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Mount points that are in use, users who may not mount, and users whom the sources keep out.
# shellcheck source=tests/mount/lib.sh
. "${top_srcdir:?run by make check}/tests/mount/lib.sh"

c=$ZF_DATA/deepspeed/zero3_w2
file=l1.bias.f32

# ---- a mount point that is in use ----
ln -s "$ZEROFS" "$tmp/mount.zerofs"
run=$tmp/run7
mkdir "$run"
cp -r "$c/global_step3" "$run/global_step3"
cp -r "$c/global_step3" "$run/global_step4"
echo global_step3 >"$run/latest"
check 'a mount' "$ZEROFS" mount "$run" "$mnt" -o only='l1*'
again() {
    says 0 "^zerofs: $mnt already shows $run/global_step3 \(zerofs umount $mnt\)\$" "$@" &&
        [ "$(grep -c " $mnt " /proc/self/mounts)" = 1 ]
}
check 'the same again says so: 0' again "$ZEROFS" mount "$run" "$mnt" -o only='l1*'
# shellcheck disable=SC2016 # expanded inside
check 'by other paths, with other words for it' again sh -c 'cd "$1" && exec "$0" mount run7/. mnt/ -o uid=$(id -u),nonempty,only="l1*"' \
    "$ZEROFS" "$tmp"
check 'with defaults that are named, and what only speaks of requests' again "$ZEROFS" mount "$run" "$mnt" -o only='l1*' \
    -o io=auto,xattrs=auto,lost=eio,cache_mem=1G,connections=4,timeout=9
check 'mount(8) hears 32' says 32 "already shows" "$tmp/mount.zerofs" "$run" "$mnt" -o 'only=l1*,rw'
check 'other options: 2, and which' says 2 "$mnt: already shows .*, mounted with only=l1.* instead of only=l2.* Unmount it first: zerofs umount $mnt" \
    "$ZEROFS" mount "$run" "$mnt" -o only='l2*'
check 'another checkpoint: 2' says 2 "$mnt: already shows another checkpoint, $run/global_step3. Unmount it first: zerofs umount $mnt" \
    "$ZEROFS" mount "$c" "$mnt" -o only='l1*'
check 'nonempty does not help' says 2 "already shows another" "$ZEROFS" mount "$c" "$mnt" -o nonempty
echo global_step4 >"$run/latest"
check 'another save is the latest by now: 2' says 2 "still shows $run/global_step3, not what is there now: $run/global_step4. Unmount it first: " \
    "$ZEROFS" mount "$run" "$mnt" -o only='l1*'
check 'unmounted' unmount "$mnt"
check '-o all_tags too' sh -c "'$ZEROFS' mount '$run' '$mnt' -o all_tags &&
    '$ZEROFS' mount '$run' '$mnt' -o all_tags 2>'$tmp/err' && grep -q 'already shows $run (' '$tmp/err'"
check 'unmounted' unmount "$mnt"
check 'tasks that mount the same at the same moment: one mount, all 0' look together "$ZEROFS" "$mnt" same "$c"
check 'tasks that mount different things: one wins, the others say so' look together "$ZEROFS" "$mnt" differ "$c" "$run"

# ---- who may not mount, or look ----
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
    chmod 755 "$tmp"
    look user_setup "$ZEROFS" "$c" "$tmp" >/dev/null 2>&1
    check 'a device of root alone: the cause, the remedy, and what needs no FUSE' look no_access "$tmp"
    check 'allow_other that fuse.conf does not allow' look no_allow_other "$tmp"
    check 'no_new_privs is named' look no_new_privs "$tmp"
    check 'fusermount3 that is not installed' look no_fusermount "$tmp"
    check 'what fusermount3 says' look fusermount_says "$tmp"
    check 'a fusermount3 on PATH that hands over a descriptor' look proxied "$tmp"
    check 'the mount of another user' look foreign "$tmp"
    check 'allow_other: nobody sees more than the sources give' look other_users "$ZEROFS" "$c" "$tmp"
else
    skip 'users who may not mount' 'needs root'
fi
finish
