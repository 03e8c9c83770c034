# SPDX-License-Identifier: Apache-2.0
"""life.py CHECK ARGUMENTS: what a shell cannot do to a mount's beginning."""
import ctypes
import os
import subprocess
import sys
import time

MS_RDONLY, MNT_DETACH = 1, 2


def given_descriptor(zerofs, checkpoint, mnt):
    """Somebody else opens /dev/fuse and mounts; zerofs serves the descriptor, as in a container."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
    assert libc.mount(b"given", mnt.encode(), b"fuse.zerofs", ctypes.c_ulong(MS_RDONLY), options) == 0
    child = subprocess.Popen([zerofs, "mount", checkpoint, f"/dev/fd/{fd}", "-f"], pass_fds=[fd])
    os.close(fd)
    try:
        deadline = time.monotonic() + 60
        while child.poll() is None and time.monotonic() < deadline:
            if os.path.exists(os.path.join(mnt, "l1.bias.f32")):
                break
            time.sleep(0.05)
        assert os.stat(os.path.join(mnt, "l1.bias.f32")).st_size == 44
    finally:
        libc.umount2(mnt.encode(), MNT_DETACH)
    assert child.wait(60) == 0


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
