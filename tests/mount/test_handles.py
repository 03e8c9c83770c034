#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files opened by handle, as an NFS server does: found again by inode number, ESTALE when there is none."""
import ctypes
import errno
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from tap import Skip, need_fuse, results  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
CKPT = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "hf", "torchsave_legacy_views")
AT_FDCWD = -100
LIBC = ctypes.CDLL(None, use_errno=True)


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]


def handle_of(path):
    h, mount = Handle(128), ctypes.c_int()
    if LIBC.name_to_handle_at(AT_FDCWD, os.fsencode(path), ctypes.byref(h), ctypes.byref(mount), 0) != 0:
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    return h


def open_handle(h, mount):
    fd = LIBC.open_by_handle_at(mount, ctypes.byref(h), os.O_RDONLY)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "open_by_handle_at")
    return fd


def found_by_handle(top):
    path = os.path.join(top, "npy", "base.npy")
    mount = os.open(top, os.O_RDONLY)
    try:
        file, folder = handle_of(path), handle_of(os.path.dirname(path))
        fd = open_handle(file, mount)
    except OSError as error:
        os.close(mount)
        if error.errno in (errno.EOPNOTSUPP, errno.EPERM, errno.ENOSYS):
            raise Skip(error) from error
        raise
    assert os.pread(fd, 6, 0) == b"\x93NUMPY" and os.fstat(fd).st_ino == os.stat(path).st_ino
    os.close(fd)
    fd = open_handle(folder, mount)
    assert "base.npy" in os.listdir(fd)
    os.close(fd)
    struct.pack_into("<Q", file.data, 0, 12345 << 40)
    try:
        open_handle(file, mount)
        raise AssertionError("an inode nobody has was opened")
    except OSError as error:
        assert error.errno == errno.ESTALE, error
    os.close(mount)


need_fuse()
mnt = tempfile.mkdtemp(prefix="zf-handles-")
subprocess.run([ZEROFS, "mount", CKPT, mnt], check=True, timeout=60)
try:
    results.run("files and directories are found by handle", found_by_handle, mnt)
finally:
    subprocess.run(["fusermount3", "-u", "-z", mnt], check=False, timeout=30)
    os.rmdir(mnt)
results.done()
