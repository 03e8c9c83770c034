#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes archives for test_zip: whole ones, and ones with a single lie in them.  zips.py DIRECTORY"""
import io
import os
import struct
import sys
import warnings
import zipfile

warnings.simplefilter("ignore")
out = sys.argv[1]
PATTERN = bytes(i * 7 % 251 for i in range(5000))


def put(name, data):
    with open(os.path.join(out, name), "wb") as f:
        f.write(data)


def archive(members, comment=b"", zip64=False):
    buf = io.BytesIO()
    with zipfile.ZipFile(buf, "w") as z:
        for name, data, method in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            with z.open(info, "w", force_zip64=zip64) as f:
                f.write(data)
        z.comment = comment
    return buf.getvalue()


def patch(data, off, fmt, *values):
    b = bytearray(data)
    struct.pack_into(fmt, b, off, *values)
    return bytes(b)


def with_end64(data):
    """The same with its numbers in a zip64 end record."""
    n, size, off = struct.unpack("<HII", data[-12:-2])
    return (data[:-22] + struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, n, n, size, off) +
            struct.pack("<4sIQI", b"PK\6\7", 0, len(data) - 22, 1) +
            struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 0xffff, 0xffff, 0xffffffff, 0xffffffff, 0))


STORED, DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
MEMBERS = [
    ("a/data.pkl", b"hello", STORED),
    ("a/data/0", PATTERN, STORED),
    ("a/empty", b"", STORED),
    ("a/deep", PATTERN, DEFLATED),
]
good = archive(MEMBERS)
central = good.index(b"PK\1\2")
second = good.index(b"PK\1\2", central + 4)
local2 = good.index(b"PK\3\4", 4)
end = good.rindex(b"PK\5\6")



class Streamed(io.RawIOBase):
    """Where zipfile cannot go back: sizes follow the data then."""

    def __init__(self):
        super().__init__()
        self.data = b""

    def writable(self):
        return True

    def write(self, b):
        self.data += bytes(b)
        return len(b)


streamed = Streamed()
with zipfile.ZipFile(streamed, "w") as z:
    for name in ("a/data.pkl", "a/data/0"):
        with z.open(zipfile.ZipInfo(name), "w") as f:
            f.write(bytes(300000))
put("described.zip", streamed.data)

put("good.zip", good)
put("comment.zip", archive(MEMBERS, b"a word about PK\5\6 and what follows it, long enough " * 40))
put("zip64.zip", archive(MEMBERS, zip64=True))


put("end64.zip", with_end64(archive(MEMBERS)))
put("none.zip", archive([]))
put("suffix.zip", good + b"x" * 100)
put("prefix.zip", b"x" * 512 + good)
put("two.zip", good + archive(MEMBERS[:1]))
put("twins.zip", good + good)
put("duplicate.zip", archive(MEMBERS[:2] + MEMBERS[:1]))
put("encrypted.zip", patch(patch(good, 6, "<H", 1), central + 8, "<H", 1))
put("method.zip", patch(patch(good, 8, "<H", 93), central + 10, "<H", 93))
put("sizes.zip", patch(good, central + 24, "<I", 6))
put("localname.zip", patch(good, local2 + 30, "<B", ord("b")))
put("localsig.zip", patch(good, local2, "<I", 0x12345678))
put("localmethod.zip", patch(good, local2 + 8, "<H", 8))
put("length.zip", patch(good, local2 + 28, "<H", 4))
put("shared.zip", patch(good, second + 42, "<I", 0))
put("outside.zip", patch(patch(good, second + 20, "<I", 6000), second + 24, "<I", 6000))
put("huge.zip", patch(patch(good, second + 20, "<I", 0x7fffffff), second + 24, "<I", 0x7fffffff))
put("farhead.zip", patch(good, second + 42, "<I", 0x7fffffff))
put("disks.zip", patch(good, end + 4, "<H", 1))
put("count.zip", patch(patch(good, end + 8, "<H", 3), end + 10, "<H", 3))
put("more.zip", patch(patch(good, end + 8, "<H", 5), end + 10, "<H", 5))
long = archive([(f"a/{i:060}", b"x", STORED) for i in range(3)])
put("many.zip", patch(long, len(long) - 14, "<HH", 4, 4))
put("halves.zip", patch(good, end + 8, "<H", 2))
put("other64.zip", patch(with_end64(good), len(with_end64(good)) - 22 + 8, "<HH", 3, 3))
put("disk64.zip", patch(with_end64(good), len(with_end64(good)) - 22 - 16, "<I", 1))
put("disks64.zip", patch(with_end64(good), len(with_end64(good)) - 22 - 4, "<I", 2))
put("of64.zip", patch(with_end64(good), len(with_end64(good)) - 22 - 20 - 56 + 20, "<I", 1))
put("place64.zip", patch(with_end64(good), len(with_end64(good)) - 22 + 16, "<I", central - 1))
put("wide.zip", patch(good, second + 42, "<I", 0xffffffff))


def wide(*extra):
    """Its second entry has neither sizes nor offset in 32 bits, but these extra fields."""
    extra = b"".join(struct.pack("<HH", id, len(field)) + field for id, field in extra)
    at = second + 46 + len("a/data/0")
    entry = patch(patch(good, second + 20, "<II", *[0xffffffff] * 2), second + 42, "<I", 0xffffffff)
    entry = patch(entry, second + 30, "<H", len(extra))
    return patch(entry[:at] + extra + entry[at:], end + len(extra) + 12, "<I", end - central + len(extra))


place = struct.pack("<QQQ", len(PATTERN), len(PATTERN), local2)
put("wide64.zip", wide((0x7777, b"..."), (1, place)))
put("short64.zip", wide((1, place[:16])))
put("lacks64.zip", wide((0x7777, place)))
put("beyond64.zip", wide((1, place[:16] + struct.pack("<Q", 2 ** 62))))
put("disk.zip", patch(good, second + 34, "<H", 1))
put("nul.zip", patch(patch(good, second + 46 + 1, "<B", 0), local2 + 30 + 1, "<B", 0))
put("reach.zip", patch(good, second + 32, "<H", 0xffff))
put("text.zip", b"this is no archive\n" * 10)

# An end record in the comment of another one, each with a directory of its own.
inner = archive([("b/x", b"other", STORED)], b"")
put("nested.zip", archive(MEMBERS, inner))

# Two members whose local headers are honest and whose data overlap: the second hides in the first.
hidden = struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 33, 0, 4, 4, 3, 0) + b"a/y" + b"DATA"
outer = struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 33, 0, len(hidden), len(hidden), 3, 0) + b"a/x"
body = outer + hidden


def entry(name, size, off):
    return struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 33, 0, size, size, len(name), 0, 0, 0, 0, 0,
                       off) + name


directory = entry(b"a/x", len(hidden), 0) + entry(b"a/y", 4, len(outer))
put("overlap.zip", body + directory + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 2, 2, len(directory), len(body), 0))

# The extra field of the first one's header moves its data into the second's header.
moved = struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 33, 0, 8, 8, 3, 16) + b"a/x" + struct.pack("<HH", 0x4246, 12)[:8] + b"\0" * 4
body = moved + struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 33, 0, 4, 4, 3, 0) + b"a/y" + b"DATA"
directory = entry(b"a/x", 8, 0) + entry(b"a/y", 4, len(moved))
put("extra.zip", body + directory + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 2, 2, len(directory), len(body), 0))

put("1500.zip", archive([(str(i), str(i).encode(), STORED) for i in range(1500)]))

# A directory and its end record in the comment of an entry, with the name of a real one and another size.
other = entry(b"a/data.pkl", 4, 0)
inside = other + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, len(other), central + 46 + len("a/data.pkl"), 0)
longer = bytearray(good[:central + 46 + len("a/data.pkl")] + inside + good[central + 46 + len("a/data.pkl"):])
struct.pack_into("<H", longer, central + 32, len(inside))
struct.pack_into("<I", longer, len(longer) - 10, len(longer) - 22 - central)
put("within.zip", bytes(longer))

# All names have one hash in libzip (h = h * 33 + c): "Ez" and "FY" have.
N = 200000
names = [b"a/" + b"".join(b"Ez" if i >> k & 1 else b"FY" for k in range(18)) for i in range(N)]
directory = b"".join(entry(name, 0, 0) for name in names)
head = struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 33, 0, 0, 0, len(names[0]), 0) + names[0]
put("collide.zip", head + directory + struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, N, N, len(directory), len(head)) +
    struct.pack("<4sIQI", b"PK\6\7", 0, len(head) + len(directory), 1) +
    struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xffff, 0xffff, len(directory), len(head), 0))

# Beyond 4 GiB, as holes: a large member, and behind it a small and an empty one.
BIG = (5 << 30) + 3
with open(os.path.join(out, "big.zip"), "wb") as f:
    places = []
    for name, size, tail in ((b"a/big", BIG, b"tail"), (b"a/small", 5, b"small"), (b"a/none", 0, b"")):
        places.append((name, size, f.tell()))
        f.write(struct.pack("<4s5H3I2H", b"PK\3\4", 45, 0x808, 0, 0, 33, 0, 0, 0, len(name), 0) + name)
        f.seek(f.tell() + size - len(tail))
        f.write(tail)
        f.write(struct.pack("<4sI2Q", b"PK\7\x08", 0, size, size))
    start = f.tell()
    for name, size, off in places:
        extra = struct.pack("<2H3Q", 1, 24, size, size, off)
        f.write(struct.pack("<4s6H3I5H2I", b"PK\1\2", 45, 45, 0x808, 0, 0, 33, 0, 0xffffffff, 0xffffffff,
                            len(name), len(extra), 0, 0, 0, 0, 0xffffffff) + name + extra)
    stop = f.tell()
    f.write(struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 3, 3, stop - start, start))
    f.write(struct.pack("<4sIQI", b"PK\6\7", 0, stop, 1))
    f.write(struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 3, 3, stop - start, 0xffffffff, 0))
