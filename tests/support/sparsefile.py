# SPDX-License-Identifier: Apache-2.0
"""Files as torch.save writes them (torch 2.x), whose tensors are holes: terabytes that take little room.

Layout: caffe2/serialize/inline_container.cc and miniz: stored members, sizes behind the data, data aligned to 64 bytes by an
"FB" field of the local header, zip64 where a size or a place needs it.  Seen in files of torch 2.13."""
import io
import os
import struct

from torchfile import pickled

ITEM = {"DoubleStorage": 8, "LongStorage": 8, "FloatStorage": 4, "IntStorage": 4, "BFloat16Storage": 2, "HalfStorage": 2,
        "ShortStorage": 2, "ByteStorage": 1, "CharStorage": 1, "BoolStorage": 1}
BIG = 0xffffffff


# ---- CRC-32 of data and zeros behind it ------------------------------------------------------------------

def _times(matrix, vector):
    out = 0
    for column in matrix:
        if vector & 1:
            out ^= column
        vector >>= 1
    return out


def _powers():
    """Matrix i feeds 2^i zero bytes to the register."""
    m = [0xedb88320] + [1 << (b - 1) for b in range(1, 32)]  # one zero bit
    for _ in range(3):
        m = [_times(m, c) for c in m]
    out = []
    for _ in range(50):
        out.append(m)
        m = [_times(m, c) for c in m]
    return out


_POWER = _powers()


def crc32(data, zeros=0):
    import zlib
    register = zlib.crc32(data) ^ BIG
    for i, matrix in enumerate(_POWER):
        if zeros >> i & 1:
            register = _times(matrix, register)
    return register ^ BIG


# ---- the archive ------------------------------------------------------------------------------------------

class Image:
    """The bytes of a file that are no holes."""

    def __init__(self):
        self.part, self.size = [], 0  # (offset, bytes)

    def add(self, data, hole=0):
        if data:
            if self.part and self.part[-1][0] + len(self.part[-1][1]) == self.size:
                self.part[-1][1].extend(data)
            else:
                self.part.append((self.size, bytearray(data)))
        self.size += len(data) + hole

    def write(self, path, was=b"", now=b""):
        """Writes it, with another root in the members' names; of the same length."""
        assert len(was) == len(now)
        with open(path, "wb") as f:
            for at, data in self.part:
                f.seek(at)
                f.write(data.replace(was, now) if was else data)
            f.truncate(self.size)


def _zip64(*values):
    body = b"".join(struct.pack("<Q", v) for v in values)
    return struct.pack("<HH", 1, len(body)) + body if values else b""


def image(rows, root):
    """rows: (name below the root, bytes, size); what the bytes do not fill is a hole."""
    out, directory = Image(), io.BytesIO()
    for name, data, size in rows:
        at, raw = out.size, f"{root}/{name}".encode()
        crc = crc32(data, size - len(data))
        large = ((size, size) if size >= BIG else ()) + ((at,) if at >= BIG else ())
        extra = _zip64(*large)
        pad = -(at + 30 + len(raw) + len(extra) + 4) % 64
        flags = 0x808 if size else 0x800
        out.add(struct.pack("<4s5H3I2H", b"PK\3\4", 0, flags, 0, 0, 0, 0, 0, 0, len(raw), len(extra) + 4 + pad) + raw + extra +
                b"FB" + struct.pack("<H", pad) + b"Z" * pad)
        out.add(data, size - len(data))
        if size:
            out.add(b"PK\7\10" + struct.pack("<IQQ" if large else "<III", crc, size, size))
        directory.write(struct.pack("<4s6H3I5H2I", b"PK\1\2", 0, 0, flags, 0, 0, 0, crc, min(size, BIG), min(size, BIG),
                                    len(raw), len(extra), 0, 0, 0, 0, min(at, BIG)) + raw + extra)
    at, listing, n = out.size, directory.getvalue(), len(rows)
    out.add(listing)
    if at >= BIG or n > 0xffff:
        end = out.size
        out.add(struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, n, n, len(listing), at))
        out.add(struct.pack("<4sIQI", b"PK\6\7", 0, end, 1))
    out.add(struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, min(n, 0xffff), min(n, 0xffff), len(listing), min(at, BIG), 0))
    return out


def torch_image(value, root, **options):
    """What torch.save makes of a value; storages hold what their data say and zeros behind it."""
    pkl, storages = pickled(value, **options)
    rows = [("data.pkl", pkl, len(pkl)), (".format_version", b"1", 1), (".storage_alignment", b"64", 2),
            ("byteorder", b"little", 6)]
    rows += [(f"data/{k}", s.data, ITEM[s.cls.__name__] * s.n) for k, s in storages.items()]
    rows += [("version", b"3\n", 2), (".data/serialization_id", b"0" * 40, 40)]
    return image(rows, root)


def stem(path):
    """The root of the members, as torch.save names it."""
    return os.path.basename(path).removesuffix(".pt")


def save(value, path, **options):
    torch_image(value, stem(path), **options).write(path)


class Saver:
    """Writes files of equal content under names of equal length without making them anew."""

    def __init__(self):
        self.made = {}

    def save(self, key, make, path):
        """make(): (value, options); called once for each key and length of a name"""
        root = stem(path)
        known = self.made.get((key, len(root)))
        if not known:
            value, options = make()
            known = self.made[(key, len(root))] = (root, torch_image(value, root, **options))
        known[1].write(path, known[0].encode(), root.encode())
