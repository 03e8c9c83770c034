#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whatever ends the processes of a mount, the mount point is free a second later, and nobody else's mount is touched.
# A memory checker must not take the signals for faults of ours.
for tool in ASAN LSAN UBSAN TSAN; do
    eval "export ${tool}_OPTIONS=\"\${${tool}_OPTIONS:+\$${tool}_OPTIONS:}handle_segv=0:handle_abort=0\""
done
# shellcheck source=tests/mount/lib.sh
. "${top_srcdir:?run by make check}/tests/mount/lib.sh"

c=$ZF_DATA/deepspeed/zero3_w2
ulimit -c 0

# The mount is aborted after a failure: nothing else ends a process that waits for itself.
unanswered() {
    [ "$1" = 0 ] && until_true 10 not_mounted "$mnt" && return
    umount -f -l "$mnt"
    return 1
}

signals='KILL SEGV ABRT QUIT'
for s in $signals; do
    for who in worker supervisor; do
        check "SIG$s ends the $who under readers" look killed "$ZEROFS" "$c" "$mnt" $who $s 2
    done
    check "in the foreground, SIG$s is exit code 5 and a sentence" look foreground "$ZEROFS" "$c" "$mnt" $s
done
for who in worker supervisor; do
    check "USR1, USR2, ALRM and PIPE leave the $who alive" look unharmed "$ZEROFS" "$c" "$mnt" $who
    check "TERM, INT and HUP to the $who: exit code 0 though files are open" look in_order "$ZEROFS" "$c" "$mnt" $who
done
check 'killed while it opens the checkpoint' look early "$ZEROFS" "$c" "$mnt"
check 'a worker that is stopped' look stopped "$ZEROFS" "$c" "$mnt"
check 'a worker held by a source that does not answer' look held "$ZEROFS" "$c" "$tmp"
check 'umount -l: reads go on, the processes leave after the last close' look lazily "$ZEROFS" "$c" "$mnt"
if [ "$(id -u)" = 0 ]; then
    check 'a mount that came later stays' look later "$ZEROFS" "$c" "$mnt"
    check 'a mount over ours stays, ours goes when it is gone' look covered "$ZEROFS" "$c" "$mnt"
    check 'a mount below ours stays' look below "$ZEROFS" "$c" "$mnt"
    check 'an aborted connection' look aborted "$ZEROFS" "$c" "$mnt" "$tmp"
    "$top_builddir/tests/mount/unanswered" "$ZEROFS" mount -f "$c" "$mnt" 2>/dev/null
    code=$?
    if [ $code = 77 ] || grep -q '__[at]san_init' "$ZEROFS"; then
        skip 'killed while it waits for its own answer' 'nothing can be traced here'
    else
        check 'killed while it waits for its own answer' unanswered $code
    fi
    check 'a device that was handed over: nobody else holds it' look given "$ZEROFS" "$c" "$mnt"
    check 'an automount point' look automount "$ZEROFS" "$c" "$mnt"
    check 'the system log hears of a death in the background' look logged "$ZEROFS" "$c" "$mnt"
    if grep -q '__[at]san_init' "$ZEROFS"; then
        skip 'without /proc' 'the checker needs it'
    else
        check 'without /proc' look without_proc "$ZEROFS" "$c" "$mnt"
    fi
    chmod 755 "$tmp"
    if [ -e /etc/mtab ]; then
        check 'without privileges, by fusermount3' look as_user "$ZEROFS" "$c" "$tmp"
    else
        skip 'without privileges, by fusermount3' 'it looks into /etc/mtab, which is not here'
    fi
else
    skip 'mounts of others, aborted connections, other users' 'needs root'
fi
finish
