#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# From mount to unmount, in every way that goes well or wrong.
# shellcheck source=tests/mount/lib.sh
. "${top_srcdir:?run by make check}/tests/mount/lib.sh"

c=$ZF_DATA/deepspeed/zero3_w2
file=l1.bias.f32

# serves MNT: the mount answers with the right bytes.
serves() {
    [ "$(timeout 60 stat -c %s "$1/$file")" = 44 ] && [ "$(timeout 60 stat -f -c %t "$1")" = 65735546 ] &&
        timeout 60 cat "$1/$file" >"$tmp/bytes"
}

# ---- starting ----
answers_at_once() {
    "$ZEROFS" mount "$c" "$mnt" && serves "$mnt" && unmount "$mnt"
}
check 'the mount answers when the command returns' answers_at_once
says_nothing() {
    "$ZEROFS" mount "$c" "$mnt" >"$tmp/out" 2>&1 && cat "$tmp/out" && [ ! -s "$tmp/out" ] && unmount "$mnt"
}
check 'success is silent, and keeps no pipe open' says_nothing
closed_streams() {
    "$ZEROFS" mount "$c" "$mnt" <&- >&- 2>&- && serves "$mnt" && unmount "$mnt"
}
check 'with stdin, stdout and stderr closed' closed_streams
relative() {
    (cd "$tmp" && ln -s "$c" ckpt && "$ZEROFS" mount ckpt mnt) && serves "$mnt" && (cd "$tmp" && unmount "$mnt")
}
check 'relative paths' relative
odd_names() {
    odd="$tmp/a mount, with \\ odd	bytes"
    mkdir "$odd" && cp -r "$c" "$tmp/a ckpt,x" && "$ZEROFS" mount "$tmp/a ckpt,x" "$odd" && serves "$odd" && unmount "$odd"
}
check 'blanks, commas and backslashes in paths' odd_names
through_link() {
    ln -s mnt "$tmp/link" && "$ZEROFS" mount "$c" "$tmp/link" && serves "$mnt" && "$ZEROFS" umount "$tmp/link" &&
        not_mounted "$mnt"
}
check 'a mount point that is a link' through_link
inside() {
    cp -r "$c" "$tmp/home" && mkdir "$tmp/home/mnt" && "$ZEROFS" mount "$tmp/home" "$tmp/home/mnt" &&
        serves "$tmp/home/mnt" && unmount "$tmp/home/mnt"
}
check 'a mount point inside the checkpoint' inside
twice() {
    mkdir "$tmp/second" && "$ZEROFS" mount "$c" "$mnt" && "$ZEROFS" mount "$c" "$tmp/second" && serves "$mnt" &&
        serves "$tmp/second" && unmount "$mnt" && serves "$tmp/second" && unmount "$tmp/second"
}
check 'two mounts of one checkpoint' twice
nonempty() {
    mkdir "$tmp/full" && touch "$tmp/full/x" && "$ZEROFS" mount "$c" "$tmp/full" -o nonempty && serves "$tmp/full" &&
        unmount "$tmp/full" && [ -e "$tmp/full/x" ]
}
check '-o nonempty' nonempty
check 'ignored words of fstab' sh -c "'$ZEROFS' '$c' '$mnt' -o ro,nofail,_netdev,noatime,x-systemd.automount,user,defaults &&
    stat '$mnt/$file' && '$ZEROFS' umount '$mnt'"
check 'ignored words of mount(8) and mount.fuse3' sh -c "'$ZEROFS' mount '$c' '$mnt' \\
    -o dirsync,lazytime,strictatime,kernel_cache,auto_cache,remember=5,X-mount.mkdir,user=me,comment=a\\\\,b,async &&
    stat '$mnt/$file' && '$ZEROFS' umount '$mnt'"
check 'mount(8) adds rw by itself' sh -c "'$ZEROFS' '$c' '$mnt' -o rw,dev,suid && '$ZEROFS' umount '$mnt'"
read_sizes() {
    "$ZEROFS" mount "$c" "$mnt" -o max_read=4096,max_threads=1,entry_timeout=0,attr_timeout=0.5,read_ahead=0,fsname=x,subtype=y &&
        serves "$mnt" && grep -q "^x $mnt fuse.y " /proc/self/mounts && unmount "$mnt"
}
check 'max_read, max_threads, timeouts, fsname, subtype' read_sizes
much_read_ahead() {
    "$ZEROFS" mount "$c" "$mnt" -o read_ahead=8T && grep -q '"read_ahead_wanted_kib": 2147483647' "$mnt/.zerofs/modes.json" &&
        serves "$mnt" && unmount "$mnt"
}
check 'a read_ahead above what the kernel counts to is the most it counts to' much_read_ahead
few_descriptors() {
    many=$ZF_DATA/deepspeed/zero3_w12
    # shellcheck disable=SC3045 # dash and bash have it
    "$ZEROFS" cat "$many" model.safetensors optim/exp_avg/model.safetensors >"$tmp/all" &&
        (ulimit -n 20 && exec "$ZEROFS" mount "$many" "$mnt") &&
        cat "$mnt/model.safetensors" "$mnt/optim/exp_avg/model.safetensors" | cmp - "$tmp/all" && unmount "$mnt"
}
check '24 shards with 20 descriptors' few_descriptors
if [ "$(id -u)" = 0 ]; then
    check 'a descriptor of /dev/fuse as mount point' look given_descriptor "$ZEROFS" "$c" "$mnt"
else
    skip 'a descriptor of /dev/fuse as mount point' 'needs root'
fi

# ---- refusals: one sentence, the right code, nothing mounted ----
touch "$tmp/plain"
mkfifo "$tmp/fifo"
mkdir "$tmp/empty" "$tmp/bad"
head -c 100 /dev/urandom >"$tmp/bad/model.safetensors"
cp -r "$c" "$tmp/lost"
rm "$tmp/lost/global_step3/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"
check 'a missing mount point' refused 2 'nowhere.*does not exist' "$c" "$tmp/nowhere"
check 'a mount point that is a file' refused 2 'plain: the mount point is not a directory' "$c" "$tmp/plain"
check 'a mount point with files' refused 2 'not empty' "$c" "$tmp/full"
check 'a mount over the checkpoint itself' refused 2 'hide the checkpoint' "$tmp/lost" "$tmp/lost" -o nonempty
check 'a mount above the checkpoint' refused 2 'hide the checkpoint' "$tmp/lost" "$tmp" -o nonempty
check 'a missing checkpoint' refused 5 'nowhere: .*No such file' "$tmp/nowhere" "$mnt"
check 'an empty directory' refused 3 'empty: ' "$tmp/empty" "$mnt"
check 'a file that is no checkpoint' refused 3 'plain' "$tmp/plain" "$mnt"
check 'a FIFO' refused 3 'fifo' "$tmp/fifo" "$mnt"
check 'a damaged file' refused 4 'model.safetensors' "$tmp/bad" "$mnt"
check 'a missing rank' refused 4 'rank' "$tmp/lost" "$mnt"
check 'no mount point' refused 2 'found 1 word' "$c"
check 'too many words' refused 2 'found 3 words' "$c" "$mnt" "$mnt"
for o in bogus rw all_tags,tag=x umask=9 uid=x uid=1,uid=2 entry_timeout=-1 'rename=(=x' rename=abc limit=foo=1 \
    limit=tensors=x format=nonsense tag=nope 'rename=.*=same' only=nothing subtype= fsname= tag degraded=1 max_read=x; do
    check "-o $o" refused 2 . "$c" "$mnt" -o "$o"
done
check '-o remount says why' refused 2 'remount: .*Unmount it and mount it again' "$c" "$mnt" -o remount
check '-o uid=NAME says what it needs' refused 2 'uid needs .*user.*"no such user"' "$c" "$mnt" -o 'uid=no such user'
check '-o gid=NAME says what it needs' refused 2 'gid needs .*group.*"nosuchgroup"' "$c" "$mnt" -o gid=nosuchgroup
check '-o allow_other,allow_root' refused 2 'allow_other and allow_root' "$c" "$mnt" -o allow_other,allow_root
check '-o rename=.*=same names both' refused 2 '"back.bias" and "back.weight"' "$c" "$mnt" -o 'rename=.*=same'
check 'a limit' refused 4 tensors "$c" "$mnt" -o limit=tensors=3
if unshare -m true 2>/dev/null; then
    no_device() {
        # shellcheck disable=SC2016 # expanded inside
        says 5 '/dev/fuse: No such file' unshare -m sh -c 'mount -t tmpfs none /dev && exec "$0" mount "$1" "$2"' \
            "$ZEROFS" "$c" "$mnt"
    }
    check 'without /dev/fuse' no_device
else
    skip 'without /dev/fuse' 'no mount namespaces here'
fi

# ---- ending ----
ends_by_signal() {
    "$ZEROFS" mount "$c" "$mnt" || return 1
    p=$(daemon_of "$mnt")
    kill "-$1" "$p" && until_true 60 ended "$p" && not_mounted "$mnt"
}
foreground_ends() {
    "$ZEROFS" mount "$c" "$mnt" -f >"$tmp/out" 2>&1 &
    p=$!
    pids="$pids $p"
    until_true 60 is_mounted "$mnt" && until_true 60 serves "$mnt" || return 1
    kill "-$1" "$p"
    status_of "$p"
    code=$?
    cat "$tmp/out"
    [ "$code" = 0 ] && not_mounted "$mnt" && [ ! -s "$tmp/out" ]
}
# ignored BIT: whoever runs the tests (nohup, a job in the background) may ignore signals, and so does the daemon then.
ignored() {
    [ $((0x$(sed -n 's/^SigIgn:[[:space:]]*//p' "/proc/$$/status") >> $1 & 1)) = 1 ]
}
for s in TERM INT HUP; do
    case $s in TERM) bit=14 ;; INT) bit=1 ;; HUP) bit=0 ;; esac
    if ignored "$bit"; then
        skip "SIG$s unmounts and ends the daemon" "SIG$s is ignored here"
        continue
    fi
    check "SIG$s unmounts and ends the daemon" ends_by_signal $s
    # A shell starts background jobs with SIGINT ignored.
    [ $s = INT ] || check "SIG$s ends the foreground with 0" foreground_ends $s
done
foreground_unmounted() {
    "$ZEROFS" mount "$c" "$mnt" -f &
    p=$!
    pids="$pids $p"
    until_true 60 serves "$mnt" && "$ZEROFS" umount "$mnt" && status_of "$p"
}
check 'umount ends the foreground with 0' foreground_unmounted
signal_with_reader() {
    "$ZEROFS" mount "$c" "$mnt" || return 1
    p=$(daemon_of "$mnt")
    exec 9<"$mnt/$file"
    kill -TERM "$p"
    until_true 60 ended "$p"
    gone=$?
    exec 9<&-
    [ $gone = 0 ] && not_mounted "$mnt"
}
check 'a signal ends it though a file is open' signal_with_reader
busy() {
    "$ZEROFS" mount "$c" "$mnt" || return 1
    p=$(daemon_of "$mnt")
    exec 9<"$mnt/$file"
    says 5 "$mnt: .*-z" "$ZEROFS" umount "$mnt" && serves "$mnt" && "$ZEROFS" umount -z "$mnt" && not_mounted "$mnt" &&
        cmp /dev/fd/9 "$tmp/bytes" && ! ended "$p"
    held=$?
    exec 9<&-
    [ $held = 0 ] && until_true 60 ended "$p"
}
check 'umount of a busy mount says so; -z detaches it and readers go on' busy
# A mount is dead only when nobody is left to take it off.
killed() {
    "$ZEROFS" mount "$c" "$mnt" || return 1
    p=$(daemon_of "$mnt")
    s=$(supervisor_of "$mnt")
    kill -STOP "$s" && kill -9 "$p" && until_true 60 ended "$p" || return 1
    is_mounted "$mnt" || { echo 'the kernel took it off itself'; return 1; }
    refused_dead && "$ZEROFS" umount "$mnt" && not_mounted "$mnt" && [ -d "$mnt" ]
    seen=$?
    kill -CONT "$s"
    [ $seen = 0 ] && until_true 60 ended "$s"
}
refused_dead() {
    says 5 "$mnt: a dead mount" "$ZEROFS" mount "$c" "$mnt"
}
check 'umount takes off the mount of a killed daemon' killed
# Nothing is left for it to do.
auto_unmount() {
    "$ZEROFS" mount "$c" "$mnt" -o auto_unmount && [ -s "$mnt/$file" ] &&
        grep -q " $mnt fuse.zerofs " /proc/self/mounts && "$ZEROFS" umount "$mnt" && not_mounted "$mnt"
}
check '-o auto_unmount' auto_unmount
check 'umount of what is not mounted' says 2 'no FUSE file system' "$ZEROFS" umount "$mnt"
check 'umount of something else' says 2 'no FUSE file system' "$ZEROFS" umount /proc
check 'umount of nothing' says 2 'needs a mount point' "$ZEROFS" umount
check 'umount of what is not there' says 5 'nowhere' "$ZEROFS" umount "$tmp/nowhere/x"

# ---- as mount(8) calls it ----
for name in mount.zerofs mount.fuse.zerofs; do
    ln -s "$ZEROFS" "$tmp/$name"
    check "$name" sh -c "'$tmp/$name' '$c' '$mnt' -s -n -v -o rw,nofail,_netdev -o uid=7 -t zerofs &&
        [ \"\$(stat -c %u '$mnt/$file')\" = 7 ] && '$ZEROFS' umount '$mnt'"
done
helper=$tmp/mount.zerofs
commas() {
    timeout 60 "$helper" "$c" "$mnt" -o 'fsname=a\,rw\,,rw' && grep -q "^a,rw, $mnt " /proc/self/mounts && unmount "$mnt"
}
check 'mount.zerofs: a comma behind a backslash ends no word' commas
check 'mount.zerofs: wrong words are 1' says 1 'needs a checkpoint' "$helper" "$c"
check 'mount.zerofs: a wrong option is 1' says 1 'bogus' "$helper" "$c" "$mnt" -o bogus
check 'mount.zerofs: no checkpoint is 32' says 32 'empty' "$helper" "$tmp/empty" "$mnt"
helps() {
    "$helper" "$1" >"$tmp/out" 2>"$tmp/err" && [ ! -s "$tmp/err" ] && grep -q "$2" "$tmp/out"
}
check 'mount.zerofs --help' helps --help '^Usage: mount.zerofs CKPT'
check 'mount.zerofs --version' helps --version '^zerofs [0-9]'
check 'mount.zerofs -f only pretends' sh -c "'$helper' '$c' '$mnt' -f && ! grep -q ' $mnt ' /proc/self/mounts"

finish
