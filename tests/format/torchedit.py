# SPDX-License-Identifier: Apache-2.0
"""Edits real torch.save archives: one value of the pickle or one element of a record is changed, and every
checksum is right.

Nothing of the archive is imported: a class or function in it becomes a stand-in of the same name, which is
pickled again as it was.
"""
import io
import pickle
import types
import zipfile

KEPT = {(m, n) for m in ("builtins", "__builtin__") for n in ("set", "list", "dict", "int")} | \
    {("collections", "OrderedDict"), ("collections", "defaultdict")}
known = {}


class Id:
    """A persistent id: ('storage', class, key, location, elements)."""

    def __init__(self, pid):
        self.pid = pid


class Call:
    """An instance of a stand-in: what it was called with, what was put on it."""
    state = None

    def __new__(cls, *args):
        self = object.__new__(cls)
        self.__dict__["args"] = args
        return self

    def __reduce__(self):
        return (type(self), self.args) + ((self.state,) if self.state is not None else ())

    def __setstate__(self, state):
        self.__dict__["state"] = state


def stand_in(module, name):
    if (module, name) in KEPT:
        return pickle.Unpickler(io.BytesIO()).find_class(module, name)
    if (module, name) not in known:
        known[module, name] = type(name, (Call,), {"__module__": module, "__qualname__": name})
    return known[module, name]


class Reader(pickle._Unpickler):
    def find_class(self, module, name):
        return stand_in(module, name)

    def persistent_load(self, pid):
        return Id(pid)


class Writer(pickle._Pickler):
    def persistent_id(self, obj):
        return obj.pid if isinstance(obj, Id) else None

    def save_global(self, obj, name=None):
        """A stand-in by the name it stands for, whether there is such a module here or not."""
        if isinstance(obj, type) and issubclass(obj, Call):
            self.write(pickle.GLOBAL + f"{obj.__module__}\n{obj.__name__}\n".encode())
            self.memoize(obj)
        else:
            super().save_global(obj, name)


class Archive:
    """with Archive(path) as a: a.root is the value; a.record(tensor) a bytearray of its storage's record."""

    def __init__(self, path, write=True):
        self.path, self.origin, self.write = path, path, write

    def __enter__(self):
        with zipfile.ZipFile(self.path) as z:
            self.member = {i.filename: bytearray(z.read(i)) for i in z.infolist()}
        self.pkl = next(n for n in self.member if n.endswith("/data.pkl"))
        self.root = Reader(io.BytesIO(bytes(self.member[self.pkl]))).load()
        return self

    def record(self, tensor):
        """The bytes of a tensor's storage, to be changed in place; tensor: a call of _rebuild_tensor_v2."""
        while not isinstance(tensor.args[0], Id):
            tensor = types.SimpleNamespace(args=tensor.args[2])  # _rebuild_from_type_v2(function, type, args, …)
        key = tensor.args[0].pid[2]
        return self.member[self.pkl[:-len("data.pkl")] + f"data/{key}"]

    def add_record(self, data):
        """A new record; gives its key."""
        stem = self.pkl[:-len("data.pkl")] + "data/"
        key = str(sum(n.startswith(stem) for n in self.member) + 1000)
        self.member[stem + key] = bytearray(data)
        return key

    def rename(self, folder):
        """Another folder than the name that the file was saved under."""
        stem = self.pkl[:-len("data.pkl")]
        self.member = {folder + "/" + n[len(stem):]: data for n, data in self.member.items()}
        self.pkl = folder + "/data.pkl"

    @staticmethod
    def with_key(storage, key):
        return Id((*storage.pid[:2], key, *storage.pid[3:]))

    def __exit__(self, kind, *rest):
        if kind or not self.write:
            return
        out = io.BytesIO()
        Writer(out, 2).dump(self.root)
        self.member[self.pkl] = out.getvalue()
        with zipfile.ZipFile(self.path, "w") as z:
            for name, data in self.member.items():
                z.writestr(name, bytes(data))
