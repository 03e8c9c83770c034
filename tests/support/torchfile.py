# SPDX-License-Identifier: Apache-2.0
"""Writes files as torch.save does, in all its containers, with Python's own pickle, zipfile and tarfile: no torch needed.

Two ways to say what is in them.  `Tensor` and `Storage` hold values and take care of keys and records.  `Call` and `Pid`
say any call and any persistent id, right or wrong; then the records are given beside them."""
import collections
import io
import pickle
import struct
import sys
import tarfile
import types
import zipfile

MAGIC = 0x1950a86a20f9469cfc6c  # serialization.py, MAGIC_NUMBER


# ---- names that pickle finds ----------------------------------------------------------------------------

def module(name, **members):
    """A module with these members, which then are what pickle writes as name.member."""
    for dot in (i for i, c in enumerate(name) if c == "."):
        sys.modules.setdefault(name[:dot], types.ModuleType(name[:dot]))
    m = sys.modules.setdefault(name, types.ModuleType(name))
    for k, v in members.items():
        v.__module__ = name
        v.__qualname__ = v.__name__ = k
        setattr(m, k, v)
    return m


def named(where, name, **members):
    """A class of that name; made once."""
    m = module(where)
    if not hasattr(m, name):
        module(where, **{name: type(name, (), members)})
    return getattr(m, name)


def storage_of(name):
    return named("torch", name)


FloatStorage = storage_of("FloatStorage")
rebuild = module("torch._utils", _rebuild_tensor_v2=lambda *a: None)._rebuild_tensor_v2


def strides(shape):
    """Of a tensor in C order."""
    out, n = [], 1
    for extent in reversed(shape):
        out.insert(0, n)
        n *= max(extent, 1)
    return tuple(out)


# ---- values ---------------------------------------------------------------------------------------------

class Storage:
    """Elements, float32 unless `data` and the name of a class say otherwise."""

    def __init__(self, values=(), data=None, n=None, cls="FloatStorage"):
        self.data = struct.pack(f"<{len(values)}f", *values) if data is None else data
        self.n, self.cls = len(values) if n is None else n, storage_of(cls)


class Tensor:
    """float32; a view of a storage"""

    def __init__(self, *values, shape=None, storage=None, offset=0):
        self.storage = storage or Storage(values)
        self.shape = tuple(shape if shape is not None else [self.storage.n])
        self.offset, self.strides = offset, None

    def __reduce__(self):
        return rebuild, (self.storage, self.offset, self.shape, self.strides or strides(self.shape), False, collections.OrderedDict())

    def hex(self):
        n = 1
        for s in self.shape:
            n *= s
        return self.storage.data[4 * self.offset:4 * (self.offset + n)].hex()


class Call:
    """where.name(*args), and what BUILD gives it"""

    def __init__(self, where, name, *args, state=None):
        self.row = (named(where, name), args) + ((state,) if state is not None else ())

    def __reduce__(self):
        return self.row


class Pid:
    """A persistent id: a tuple, or one value."""

    def __init__(self, *row):
        self.row = row[0] if len(row) == 1 else row


def storage(key, cls, n, *more, where="torch", device="cpu"):
    return Pid("storage", named(where, cls), key, device, n, *more)


def tensor(pid, off, size, stride, *more):
    return Call("torch._utils", "_rebuild_tensor_v2", pid, off, size, stride, False, collections.OrderedDict(), *more)


class Pickler(pickle._Pickler):
    """Numbers the storages in the order in which they are met."""
    device, more, first_key = "cpu", (), 0

    def __init__(self, f, protocol=2):
        super().__init__(f, protocol)
        self.keys, self.storages = {}, []

    def persistent_id(self, obj):
        if isinstance(obj, Pid):
            return obj.row
        if not isinstance(obj, Storage):
            return None
        if id(obj) not in self.keys:
            self.keys[id(obj)] = str(self.first_key + len(self.storages))
            self.storages.append(obj)
        return ("storage", obj.cls, self.keys[id(obj)], self.device, obj.n, *self.more)

    def records(self):
        """key -> storage"""
        return {self.keys[id(s)]: s for s in self.storages}


def pickled(value, protocol=2, pickler=Pickler, **options):
    """The text of the pickle, and its storages by key."""
    buf = io.BytesIO()
    p = pickler(buf, protocol, **options)
    p.dump(value)
    return buf.getvalue(), p.records()


def text(value, protocol=2, **options):
    return pickled(value, protocol, **options)[0]


# ---- containers -----------------------------------------------------------------------------------------

def archive(value, members=(), protocol=2, prefix="archive/", extra=(), **options):
    """The zip of torch >= 1.6.  value: what is pickled, or the bytes of the pickle; members: more records by key."""
    pkl, storages = (value, {}) if isinstance(value, bytes) else pickled(value, protocol, **options)
    buf = io.BytesIO()
    with zipfile.ZipFile(buf, "w") as z:
        z.writestr(prefix + "data.pkl", pkl)
        for k, data in {**{k: s.data for k, s in storages.items()}, **dict(members)}.items():
            z.writestr(f"{prefix}data/{k}", data)
        for k, data in extra:
            z.writestr(k, data)
    return buf.getvalue()


def legacy(value, members=(), protocol=2, **options):
    """The stream of torch 0.2 to 1.5: five pickles, then each storage's count and bytes.  members: key -> (n, bytes)."""
    host = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    body, storages = pickled(value, protocol, **options)
    members = {**{k: (s.n, s.data) for k, s in sorted(storages.items())}, **dict(members)}
    head = b"".join(text(x, protocol, **options) for x in (MAGIC, 1001, host))
    return head + body + text(list(members), protocol, **options) + b"".join(
        struct.pack("<q", n) + data for n, data in members.values())


def tar(members):
    """The container of torch 0.1: (name, bytes) of each member."""
    buf = io.BytesIO()
    with tarfile.open(fileobj=buf, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return buf.getvalue()


def save(value, path):
    """torch.save(value, path)"""
    with open(path, "wb") as f:
        f.write(archive(value, extra=[("archive/byteorder", "little"), ("archive/version", "3\n")]))
