# SPDX-License-Identifier: Apache-2.0
"""can_mount.py DIR: may this process mount a FUSE file system?  If not, says why and fails."""
import ctypes
import os
import shutil
import sys

MS_NOSUID, MS_NODEV, MNT_DETACH = 2, 4, 2


def main(directory):
    try:
        fd = os.open("/dev/fuse", os.O_RDWR)
    except OSError as e:
        sys.exit(f"/dev/fuse cannot be opened: {e.strerror}")
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fd},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    flags = MS_NOSUID | MS_NODEV
    if libc.mount(b"probe", directory.encode(), b"fuse", ctypes.c_ulong(flags), options.encode()) == 0:
        libc.umount2(directory.encode(), MNT_DETACH)
        return
    why = os.strerror(ctypes.get_errno())
    helper = shutil.which("fusermount3")
    with open("/proc/self/status") as status:
        locked = "NoNewPrivs:\t1" in status.read()
    if os.getuid() == 0 or not helper or locked or not os.stat(helper).st_mode & 0o4000:
        sys.exit(f"nothing can be mounted here: {why}")


main(sys.argv[1])
