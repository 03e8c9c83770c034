#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The requests that a kernel keeps from a mount that it knows to be read-only, and those that it sends when it likes: asked
over a socket in /dev/fuse's place, in the words of linux/fuse.h (protocol 7.31)."""
import errno
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from tap import main  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
LLAMA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "hf", "transformers5.23.0_llama_tied_bf16_single")
CKPT = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "hf", "torchsave_legacy_views")
FILE, NOWHERE, ROOT = b"base.f32", 12345 << 40, 1
LOOKUP, FORGET, GETATTR, READLINK, OPEN, READ, STATFS, GETXATTR, LISTXATTR = 1, 2, 3, 5, 14, 15, 17, 22, 23
INIT, OPENDIR, READDIR, BATCH_FORGET = 26, 27, 28, 42
ON_FILE = {  # opcode and body of what would change the file
    "setattr": (4, bytes(88)),
    "write": (16, struct.pack("<2Q2IQ2I", 0, 0, 4, 0, 0, os.O_RDWR, 0) + b"1234"),
    "setxattr": (21, struct.pack("<2I", 1, 0) + b"user.new\0v"),
    "removexattr": (24, b"user.zerofs.dtype\0"),
    "fallocate": (43, struct.pack("<3Q2I", 0, 0, 8, 0, 0)),
    "open to write": (OPEN, struct.pack("<2I", os.O_RDWR, 0)),
    "open to truncate": (OPEN, struct.pack("<2I", os.O_RDONLY | os.O_TRUNC, 0)),
}
ON_ROOT = {  # of what would change the directory
    "symlink": (6, b"new\0to\0"),
    "mknod": (8, struct.pack("<4I", 0o100644, 0, 0o22, 0) + b"new\0"),
    "mkdir": (9, struct.pack("<2I", 0o755, 0o22) + b"new\0"),
    "unlink": (10, FILE + b"\0"),
    "rmdir": (11, b"npy\0"),
    "rename": (12, struct.pack("<Q", ROOT) + FILE + b"\0new\0"),
    "link": (13, struct.pack("<Q", ROOT) + b"new\0"),
    "create": (35, struct.pack("<4I", os.O_RDWR | os.O_CREAT, 0o644, 0o22, 0) + b"new\0"),
    "rename2": (45, struct.pack("<Q2I", ROOT, 0, 0) + FILE + b"\0new\0"),
}


class Kernel:
    """One end of the device; the other is served."""

    def __init__(self, *opts, ckpt=CKPT, **streams):
        self.end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.unique = 0
        with theirs:
            fd = theirs.fileno()
            self.served = subprocess.Popen([ZEROFS, "mount", ckpt, f"/dev/fd/{fd}", "-f", *opts], pass_fds=[fd], **streams)
        self.end.settimeout(60)
        assert self.ask(INIT, 0, struct.pack("<4I", 7, 31, 1 << 17, 0))[0] == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.served.terminate()
        code = self.served.wait(60)
        self.end.close()
        assert code == 0, code

    def tell(self, opcode, node, body):
        self.unique += 2
        head = struct.pack("<2I2Q4I", 40 + len(body), opcode, self.unique, node, os.getuid(), os.getgid(), os.getpid(), 0)
        self.end.send(head + body)

    def ask(self, opcode, node, body):
        """The errno of the answer, and what it holds; no answer is one to another question."""
        self.tell(opcode, node, body)
        answer = self.end.recv(1 << 20)
        n, error, unique = struct.unpack_from("<IiQ", answer)
        assert n == len(answer) and unique == self.unique, (n, len(answer), unique, self.unique)
        return -error, answer[16:]

    def find(self, name, at=ROOT):
        error, entry = self.ask(LOOKUP, at, name + b"\0")
        assert error == 0, (name, error)
        return struct.unpack_from("<Q", entry)[0]


def read_body(off, n):
    return struct.pack("<2Q2IQ2I", 0, off, n, 0, 0, 0, 0)


def the_bytes():
    return subprocess.run([ZEROFS, "cat", CKPT, FILE.decode()], check=True, capture_output=True, timeout=60).stdout


def every_way_to_write_is_refused():
    with Kernel() as k:
        node = k.find(FILE)
        said = {name: k.ask(opcode, at, body) for at, rows in ((node, ON_FILE), (ROOT, ON_ROOT)) for name, (opcode, body) in rows.items()}
        wrong = {name: answer for name, answer in said.items() if answer != (errno.EROFS, b"")}
        assert not wrong, wrong
        assert k.ask(READ, node, read_body(0, 1 << 16)) == (0, the_bytes())


def no_inode_is_stale_and_no_offset_before_the_file():
    attr, opened = bytes(16), struct.pack("<2I", os.O_RDONLY, 0)
    with Kernel() as k:
        node = k.find(FILE)
        for opcode, body in (GETATTR, attr), (OPEN, opened), (OPENDIR, opened), (LOOKUP, FILE + b"\0"):
            assert k.ask(opcode, NOWHERE, body) == (errno.ESTALE, b""), opcode
        assert k.ask(READLINK, node, b"") == (errno.EINVAL, b"")
        assert k.ask(READ, node, read_body((1 << 64) - 4, 4)) == (errno.EINVAL, b"")
        assert k.ask(READ, node, read_body(4, 8)) == (0, the_bytes()[4:12])


def what_is_forgotten_is_not_answered_and_still_there():
    with Kernel() as k:
        node = k.find(FILE)
        k.tell(FORGET, node, struct.pack("<Q", 1))
        k.tell(BATCH_FORGET, 0, struct.pack("<2I4Q", 2, 0, node, 1, ROOT, 1))
        error, attr = k.ask(GETATTR, node, bytes(16))
        assert error == 0 and struct.unpack_from("<16x2Q", attr) == (node, len(the_bytes())), (error, attr)


def attributes_say_how_long_they_are():
    with Kernel() as k:
        node = k.find(FILE)

        def sized(opcode, name):
            def ask(n):
                return k.ask(opcode, node, struct.pack("<2I", n, 0) + name)
            error, answer = ask(0)
            n = struct.unpack_from("<I", answer)[0]
            assert error == 0 and n > 1 and ask(n - 1) == (errno.ERANGE, b""), (name, error, n)
            error, answer = ask(n)
            assert error == 0 and len(answer) == n, (name, error, answer)
            return answer

        names = sized(LISTXATTR, b"").split(b"\0")
        assert names.pop() == b"" and b"user.zerofs.dtype" in names, names
        values = {name: sized(GETXATTR, name + b"\0") for name in names}
        assert values[b"user.zerofs.dtype"] == b"f32", values


def a_listing_goes_on_where_it_broke_off():
    with Kernel() as k:
        names, at = [], 0
        while True:
            # Room for one name of this checkpoint, not for two.
            error, page = k.ask(READDIR, ROOT, read_body(at, 56))
            assert error == 0
            if not page:
                break
            at, n = struct.unpack_from("<8xQI", page)
            names.append(page[24:24 + n].decode())
            assert len(page) <= 56 and len(page) == 24 + (n + 7) // 8 * 8, page
        shown = subprocess.run([ZEROFS, "ls", "-R", CKPT], check=True, capture_output=True, text=True, timeout=60).stdout
        assert names[:2] == [".", ".."] and len(set(names)) == len(names) and set(shown.split()) < set(names), (names, shown)
        assert all(k.find(name.encode()) for name in names)


def only_what_never_changes_stays_in_the_page_cache():
    direct, keep = 1, 2  # FOPEN_DIRECT_IO, FOPEN_KEEP_CACHE

    def kept(k, node):
        error, answer = k.ask(OPEN, node, struct.pack("<2I", os.O_RDONLY, 0))
        assert error == 0
        return struct.unpack_from("<8xI", answer)[0] & (direct | keep)

    with Kernel() as k:
        assert kept(k, k.find(FILE)) == keep
        assert kept(k, k.find(b"stats.json", k.find(b".zerofs"))) == direct
    with tempfile.TemporaryDirectory() as cut:
        shard = os.path.join(cut, "model.safetensors")
        shutil.copy(os.path.join(LLAMA, "model.safetensors"), shard)
        os.truncate(shard, os.path.getsize(shard) - 1)
        with Kernel("-o", "degraded", ckpt=cut) as k:
            both = {kept(k, k.find(name)) for name in (b"model.embed_tokens.weight.bf16", b"model.norm.weight.bf16")}
            assert both == {direct, keep}, both


def a_block_that_is_begun_counts():
    for n in (0, 1, 511, 512, 513):
        with tempfile.TemporaryDirectory() as ckpt:
            head = b'{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (n, n)
            with open(os.path.join(ckpt, "model.safetensors"), "wb") as f:
                f.write(struct.pack("<Q", len(head)) + head + bytes(n))
            with Kernel(ckpt=ckpt) as k:
                error, answer = k.ask(STATFS, ROOT, b"")
                blocks, files, size = struct.unpack_from("<Q16xQ16xI", answer)
                assert error == 0 and (blocks, files, size) == ((n + 511) // 512, 1, 512), (n, blocks, files, size)


def every_request_is_printed_for_who_debugs():
    with tempfile.TemporaryFile() as said:
        with Kernel("-d", stderr=said) as k:
            k.find(FILE)
            said.seek(0)
            assert b"LOOKUP" in said.read()


def a_descriptor_that_is_not_open_is_refused():
    r = subprocess.run([ZEROFS, "mount", CKPT, "/dev/fd/99", "-f"], check=False, capture_output=True, text=True, timeout=60)
    assert r.returncode == 5 and "zerofs: /dev/fd/99 is not an open descriptor" in r.stderr, r


main([every_way_to_write_is_refused, no_inode_is_stale_and_no_offset_before_the_file,
      what_is_forgotten_is_not_answered_and_still_there, attributes_say_how_long_they_are,
      a_listing_goes_on_where_it_broke_off, only_what_never_changes_stays_in_the_page_cache, a_block_that_is_begun_counts,
      every_request_is_printed_for_who_debugs,
      a_descriptor_that_is_not_open_is_refused])
