#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make install: nothing outside the prefix, unless configure was told where mount(8) looks.
NO_MOUNT=1
# shellcheck source=tests/mount/lib.sh
. "${top_srcdir:?run by make check}/tests/mount/lib.sh"
unset MAKEFLAGS MFLAGS MAKELEVEL

# install TARGET VARIABLE=VALUE...: into $tmp/p alone.
install() {
    make -C "$top_builddir" "$@" prefix="$tmp/p" DESTDIR= >"$tmp/made" 2>&1 || { cat "$tmp/made"; return 1; }
}
outside() {
    find "$tmp" ! -path "$tmp/p/*" \( -type l -o -name 'mount.*' \)
}

plainly() {
    install install mounthelperdir= && [ -x "$tmp/p/bin/zerofs" ] && [ -e "$tmp/p/share/man/man8/mount.zerofs.8" ] &&
        [ -z "$(outside)" ] && [ ! -e "$tmp/p/sbin" ] &&
        grep -F "ln -s '$tmp/p/bin/zerofs' /sbin/mount.zerofs" "$tmp/made" &&
        grep -F "ln -s '$tmp/p/bin/zerofs' /sbin/mount.fuse.zerofs" "$tmp/made"
}
check 'make install stays in the prefix and names the links that mount(8) needs' plainly
linked() {
    install install-exec "mounthelperdir=$tmp/helpers" &&
        for h in mount.zerofs mount.fuse.zerofs; do
            [ "$(readlink "$tmp/helpers/$h")" = "$tmp/p/bin/zerofs" ] &&
                "$tmp/helpers/$h" --help | grep -q "^Usage: $h CKPT MOUNTPOINT" || return 1
        done
}
check 'a helper directory gets the links, which work' linked
removed() {
    install uninstall "mounthelperdir=$tmp/helpers" && [ -z "$(find "$tmp/p" "$tmp/helpers" ! -type d)" ]
}
check 'make uninstall removes both' removed
finish
