#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads torch.save files with torch_dump: real ones against torch's own digests, made ones against what
was put in, and damaged ones, which must be refused with a sentence."""
import collections
import glob
import hashlib
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib

DUMP = os.path.join(os.environ["top_builddir"], "tests/unit/codec/torch_dump")
DATA = os.environ["ZF_DATA"]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
import mkdcp  # noqa: E402 pylint: disable=wrong-import-position
from tap import check, done  # noqa: E402 pylint: disable=wrong-import-position
from torchfile import MAGIC, Call, Pid, archive, legacy, named, storage, tar, tensor, text  # noqa: E402 pylint: disable=wrong-import-position

TMP = tempfile.TemporaryDirectory()
def dump(path, *options):
    run = subprocess.run([DUMP, *options, path], capture_output=True, text=True, errors="replace", timeout=120)
    return run, [line.split("\t") for line in run.stdout.splitlines()]


def tensors(rows):
    """path -> (dtype, shape, bytes) of what is dense"""
    return {r[0]: (r[2], [int(x) for x in r[3].split(",") if x], bytes.fromhex(r[4])) for r in rows if r[1] == "dense"}


# ---- real files -------------------------------------------------------------------------------------

def same(got, want):
    return got and (got[0], got[1], hashlib.sha256(got[2]).hexdigest()) == (
        want["dtype"], want["shape"], want["sha256"])


def plain_name(path):
    """The name in the state dict of a module that was pickled whole."""
    return ".".join(p for p in path.split(".") if p not in ("_modules", "_parameters", "_buffers"))


for expected in sorted(glob.glob(os.path.join(DATA, "hf/torchsave_*/expected.json"))):
    want = json.load(open(expected))
    folder = os.path.dirname(expected)
    name = os.path.basename(folder)
    run, rows = dump(os.path.join(folder, want["files"][0]))
    got = tensors(rows)
    if "whole_module" in name:
        got = {plain_name(k): v for k, v in got.items()}
    for k in [k for k in got if k.endswith(".int_repr")]:
        got[k[:-9]] = got[k]
    wrong = [k for k, w in want["tensors"].items() if not same(got.get(k), w)]
    for k, s in want.get("sparse", {}).items():
        wrong += [f"{k}.{p}" for p, w in s["parts"].items() if not same(got.get(f"{k}.{p}"), w)]
    check(name, run.returncode == 0 and not wrong, f"{wrong} {run.stderr}")


def assembled(files):
    """ShardedTensors joined from the ranks' files by their own boxes; plain tensors from any rank."""
    whole = {}
    for f in files:
        run, rows = dump(f)
        dense = tensors(rows)
        for r in rows:
            if r[1] == "sharded":
                whole.setdefault(r[0], (r[2], [int(x) for x in r[3].split(",")], {}))
            elif r[1] == "local":
                _, shape, data = dense[f"{r[0]}.shard{r[4]}"]
                whole[r[0]][2][tuple(int(x) for x in r[3].split(","))] = shape, data
        for k, v in dense.items():
            whole.setdefault(k, v)
    return whole


def join(dtype, shape, boxes):
    size = {"float32": 4, "bfloat16": 2, "int64": 8}[dtype]
    out = {}
    for start, (box, data) in boxes.items():
        index = [[]]
        for n in box:
            index = [i + [j] for i in index for j in range(n)]
        for k, i in enumerate(index):
            out[tuple(a + b for a, b in zip(start, i))] = data[k * size:(k + 1) * size]
    return dtype, shape, b"".join(out[i] for i in sorted(out))


for version in ("torch1.13", "torch2.14"):
    want = json.load(open(os.path.join(DATA, "dcp", version, "expected_rank.json")))
    got = assembled([os.path.join(DATA, "dcp", version, f) for f in want["files"]])
    wrong = [k for k, w in want["tensors"].items()
             if not same(join(*got[k]) if isinstance(got[k][2], dict) else got[k], w)]
    check(f"ShardedTensors of {version}", not wrong, wrong)

want = json.load(open(os.path.join(DATA, "dcp/torch2.14/expected_dt_rank.json")))
for rank, f in enumerate(want["files"]):
    run, rows = dump(os.path.join(DATA, "dcp/torch2.14", f))
    got, dt = tensors(rows), {r[0]: r for r in rows if r[1] == "dtensor"}
    wrong = []
    for k, w in want["tensors"].items():
        place = w["placements"].strip("(,)").replace("Shard(dim=", "shard:").replace("Replicate", "replicate:0")
        ok = (k in dt and dt[k][3] == ",".join(map(str, w["shape"])) and got[k + ".local"][1] == w["local"][rank]
              and dt[k][4] == f"{rank}/2:{place}" and dt[k][5] == "0,1")
        wrong += [] if ok else [k]
    check(f"DTensors of {f}", run.returncode == 0 and not wrong, f"{wrong} {run.stderr}")

run, rows = dump(os.path.join(DATA, "hf/torchsave_legacy_views/pytorch_model.bin"))
check("a legacy stream is called one", rows[0][2] == "legacy")

# ---- made files -------------------------------------------------------------------------------------

def overlapping(first, second):
    """An archive whose headers are honest, but whose storages "0" and "1" overlap: `first` ends with all of "1"."""
    def header(name, data):
        return struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 33, zlib.crc32(data), len(data), len(data),
                           len(name), 0) + name

    def entry(name, data, off):
        return struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 33, zlib.crc32(data), len(data), len(data),
                           len(name), 0, 0, 0, 0, 0, off) + name

    one, zero, pkl = b"archive/data/1", b"archive/data/0", b"archive/data.pkl"
    hidden = header(one, second) + second
    outer = first + hidden
    data = text({k: tensor(storage(k, "ByteStorage", len(v)), 0, (len(v),), (1,))
                    for k, v in (("0", outer), ("1", second))})
    head = header(pkl, data) + data
    at = len(head) + len(header(zero, outer)) + len(first)
    body = head + header(zero, outer) + outer
    directory = entry(pkl, data, 0) + entry(zero, outer, len(head)) + entry(one, second, at)
    return body + directory + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 3, 3, len(directory), len(body), 0)


def put(data):
    path = os.path.join(TMP.name, "case.pt")
    with open(path, "wb") as f:
        f.write(data)
    return path


def reads(name, data, want, container="zip"):
    run, rows = dump(put(data))
    got = {k: v[1:] for k, v in tensors(rows).items()}
    check(name, run.returncode == 0 and rows[0][2] == container and got == want, f"{got} {run.stderr}")


def refuses(name, data, *words):
    run, _ = dump(put(data))
    ok = run.returncode == 1 and run.stderr.count("\n") == 1 and all(w in run.stderr for w in words)
    check(f"refuses {name}", ok, f"exit {run.returncode}: {run.stderr}")


def as_torch_lays_it(pkl, records):
    """An archive whose data begin at multiples of 64 and whose sizes follow them, as torch writes it, and the offsets of
    its local headers."""
    path = os.path.join(TMP.name, "laid.pt")
    out = mkdcp.Out(path)
    mkdcp.save_zip(out, None, {"data.pkl": pkl, **{f"data/{k}": v for k, v in records.items()}, "version": b"3\n"})
    out.close()
    with open(path, "rb") as f:
        data = f.read()
    return data, [m.header_offset for m in zipfile.ZipFile(path).infolist()]


def every_header_bit(name, records):
    """No bit of the local headers, but for those that nobody reads, may move a tensor without being noticed."""
    pkl = text({k: tensor(storage(k, "ByteStorage", len(v)), 0, (len(v),), (1,)) for k, v in records.items()})
    data, headers = as_torch_lays_it(pkl, records)
    want, wrong = {k: ([len(v)], v) for k, v in records.items()}, []
    for at in headers:
        for bit in range(8 * 30):
            flipped = bytearray(data)
            flipped[at + bit // 8] ^= 1 << bit % 8
            run, rows = dump(put(bytes(flipped)))
            if run.returncode == 0 and {k: v[1:] for k, v in tensors(rows).items()} != want:
                wrong.append((at, bit))
    check(f"every bit of the headers before {name}", not wrong, wrong)


every_header_bit("noise", {"0": bytes(i * 7 % 251 for i in range(90)), "1": b"another one"})
every_header_bit("zeros", {"0": bytes(96)})
# A length that is four more lets the extra field end with one more record.
laid, starts = as_torch_lays_it(text({"0": tensor(storage("0", "ByteStorage", 20), 0, (20,), (1,))}),
                                {"0": b"\1\0\0\0" + b"sixteen numbers!"})
length = starts[1] + 28
laid = laid[:length] + struct.pack("<H", struct.unpack("<H", laid[length:length + 2])[0] + 4) + laid[length + 2:]
refuses("data that begin within themselves", laid, "its sizes do not follow")

F4 = struct.pack("<6f", *range(6))
six = {"0": F4}
S = storage("0", "FloatStorage", 6)
T = tensor(S, 0, (2, 3), (3, 1))
good = archive({"w": T}, six)

for p in (2, 3, 4, 5):
    reads(f"protocol {p}", archive({"w": T}, six, p), {"w": ([2, 3], F4)})
    reads(f"a legacy stream of protocol {p}", legacy({"w": tensor(storage("7", "FloatStorage", 6, None), 0, (2, 3), (3, 1))},
          {"7": (6, F4)}, p), {"w": ([2, 3], F4)}, "legacy")
for p, opcode in (0, "PUT"), (1, "INT"):
    refuses(f"protocol {p}", archive({"w": T}, six, p), f"opcode {opcode} of pickle protocol 0; protocols 2 to 5 are read")
    refuses(f"a legacy stream of protocol {p}", legacy({"w": tensor(storage("7", "FloatStorage", 6, None), 0, (2, 3), (3, 1))},
            {"7": (6, F4)}, p), "byte 0: opcode LONG of pickle protocol 0; protocols 2 to 5 are read")
reads("a prefix of its own", archive({"w": T}, six, prefix="a b.c/"), {"w": ([2, 3], F4)})
reads("a nested prefix", archive({"w": T}, six, prefix="x/y/"), {"w": ([2, 3], F4)})
reads("strangers in the archive", archive({"w": T}, six, extra=[("__MACOSX/x", b"y"), ("z", b"")]), {"w": ([2, 3], F4)})
reads("a member longer than its storage by less than an element", archive({"w": T}, {"0": F4 + b"mor"}),
      {"w": ([2, 3], F4)})
reads("a Python list of tensors", archive([T, T], six), {"0": ([2, 3], F4), "1": ([2, 3], F4)})
reads("a view of a view in a legacy stream",
      legacy({"w": tensor(storage("7", "FloatStorage", 6, ("8", 2, 4)), 1, (3,), (1,))}, {"7": (6, F4)}),
      {"w": ([3], F4[12:24])}, "legacy")
reads("storages in the order of the key list",
      legacy([tensor(storage(k, "ShortStorage", 1, None), 0, (1,), (1,)) for k in "ab"],
             {"b": (1, b"bb"), "a": (1, b"aa")}), {"0": ([1], b"aa"), "1": ([1], b"bb")}, "legacy")
reads("an empty tensor without a member",
      archive({"e": tensor(storage("9", "FloatStorage", 0), 5, (0, 4), (9, 9))}, {"9": b""}), {"e": ([0, 4], b"")})
for how, make in ("", lambda t: archive(t, {"9": b""})), ("legacy", lambda t: legacy(t, {"9": (0, b"")})):
    views = {k: tensor(storage("9", k + "Storage", 0, *[None] * bool(how)), 0, (0,), (1,)) for k in ("Float", "Int", "Bool")}
    reads(f"an empty storage as several types {how}", make(views), {k: ([0], b"") for k in views}, how or "zip")
v3 = Call("torch._utils", "_rebuild_tensor_v3", storage("0", "UntypedStorage", 24, where="torch.storage"), 1, (2,), (2,),
          False, collections.OrderedDict(), named("torch", "uint16"))
reads("an untyped storage", archive(v3, six), {"": ([2], F4[2:4] + F4[6:8])})
swapped = archive({"w": T, "v": v3}, six, extra=[("archive/byteorder", b"big")])
refuses("one storage as two types", swapped, "storage \"0\" is both")
nothing = tensor(storage("0", "IntStorage", 0), 0, (0,), (1,))
refuses("one storage as two types, with bytes and then without", archive({"w": T, "e": nothing}, six), "storage \"0\" is both")
refuses("… without bytes and then with", archive({"e": nothing, "w": tensor(S, 0, (0,), (1,))}, {"0": b""}), "storage \"0\" is both")
reads("big-endian untyped storages", archive(v3, six, extra=[("archive/byteorder", b"big")]),
      {"": ([2], F4[3:1:-1] + F4[7:5:-1])})
refuses("a third byte order", archive({"w": T}, six, extra=[("archive/byteorder", b"pdp")]), "byteorder", "pdp")
C = storage("0", "ComplexFloatStorage", 3)
flip = bytearray(F4)
for k in (7, 15, 23):
    flip[k] ^= 0x80
reads("a conjugate view", archive(tensor(C, 0, (3,), (1,), {"conj": True}), six), {"": ([3], bytes(flip))})
refuses("a negative view of integers", archive(tensor(storage("0", "IntStorage", 6), 0, (6,), (1,), {"neg": True}), six),
        "negative view")
packed = storage("0", "QUInt4x2Storage", 24)
reads("two integers a byte, each row in whole bytes",
      archive(Call("torch._utils", "_rebuild_qtensor", packed, 0, (2, 5), (5, 1),
                   (named("torch", "per_tensor_affine"), 0.5, 1), False, collections.OrderedDict()), six),
      {"int_repr": ([2, 3], F4[:6])})
reads("a parameter that was pickled as a call of its class",
      archive({"w": Call("torch.nn.parameter", "Parameter", T, True)}, six), {"w": ([2, 3], F4)})
reads("a tensor of torch 0.4",
      archive({"w": Call("torch", "FloatTensor", state=(S, 1, (2,), (1,)))}, six), {"w": ([2], F4[4:12])})

dtype = Call("numpy", "dtype", "f4", False, True, state=(3, ">", None, None, None, -1, -1, 0))
array = Call("numpy.core.multiarray", "_reconstruct", named("numpy", "ndarray"), (0,), b"b",
             state=(1, (2, 3), dtype, True, struct.pack(">6f", *range(6))))
reads("a numpy array, big-endian and in Fortran order", archive({"a": array}, {}),
      {"a": ([2, 3], struct.pack("<6f", 0, 2, 4, 1, 3, 5))})
for core in ("numpy.core", "numpy._core"):
    for order, floats in (("C", range(6)), ("F", (0, 2, 4, 1, 3, 5))):
        buffer = Call(core + ".numeric", "_frombuffer", struct.pack(">6f", *range(6)), dtype, (2, 3), order)
        reads(f"a numpy array of pickle protocol 5, {core}, {order}", archive({"a": buffer}, {}, 4), {"a": ([2, 3], struct.pack("<6f", *floats))})
short = Call("numpy.core.multiarray", "_reconstruct", named("numpy", "ndarray"), (0,), b"b",
             state=(1, (9, 9), dtype, True, b"few"))
run, rows = dump(put(archive({"a": short}, {})))
check("a numpy array of too few bytes is no tensor", run.returncode == 0 and not tensors(rows))

for below in ("", "./"):
    for first in ("sys_info", "pickle", "tensors", "storages"):
        refuses(f"a tar of torch 0.1 that begins with {below}{first}", tar([(below + first, text({}))]), "a tar of torch 0.1 (2017), which is not read: torch.save(")

# torch 1.9 and older say nothing of whether the indices are sorted.
coo = Call("torch._utils", "_rebuild_sparse_tensor", Call("torch.serialization", "_get_layout", "torch.sparse_coo"),
           (tensor(storage("1", "LongStorage", 2), 0, (1, 2), (2, 1)), tensor(S, 0, (2,), (1,)), (5,)))
reads("a sparse tensor of three parts", archive({"w": coo}, {**six, "1": struct.pack("<2q", 0, 3)}),
      {"w.indices": ([1, 2], struct.pack("<2q", 0, 3)), "w.values": ([2], F4[:8])})

# ---- damaged files ----------------------------------------------------------------------------------

refuses("a tensor past its storage", archive(tensor(S, 1, (2, 3), (3, 1)), six), 'beyond its storage "0"')
refuses("an offset that wraps", archive(tensor(S, 2**64 - 1, (2,), (1,)), six), "beyond its storage")
refuses("a stride that wraps", archive(tensor(S, 0, (3,), (2**63,)), six), "beyond its storage")
refuses("a shape that wraps", archive(tensor(S, 0, (2**32, 2**32), (0, 0)), six), "too large")
refuses("a shape of more bytes than any file", archive(tensor(S, 0, (2**62,), (0,)), six), "too large")
refuses("a negative size", archive(tensor(S, 0, (-1,), (1,)), six), "not a size")
refuses("a negative stride", archive(tensor(S, 5, (2,), (-1,)), six), "not a size")
refuses("a float for a size", archive(tensor(S, 0, (2.0,), (1,)), six), "not a size")
refuses("a boolean for a size", archive(tensor(S, 0, (True,), (1,)), six), "not a size")
refuses("too many dimensions", archive(tensor(S, 0, (1,) * 65, (1,) * 65), six), "tensor_dims=64")
refuses("fewer strides than sizes", archive(tensor(S, 0, (2, 3), (1,)), six), "strides")
refuses("a storage shorter than told", archive(T, {"0": F4[:-1]}), "24 bytes", "23")
refuses("a storage that is not there", archive(T, {}), 'storage "0" is missing', "archive/data/0")
refuses("a storage of a billion billions", archive(tensor(storage("0", "FloatStorage", 2**62), 0, (1,), (1,)), six),
        "elements")
refuses("an unknown storage class", archive(tensor(storage("0", "OddStorage", 6), 0, (6,), (1,)), six), "OddStorage")
refuses("a persistent id of another kind", archive(tensor(Pid("module", 1), 0, (6,), (1,)), six), "persistent id")
refuses("a tensor on a number", archive(Call("torch._utils", "_rebuild_tensor_v2", 1, 0, (1,), (1,)), six), "storage")
refuses("a quantized tensor without zero point",
        archive(Call("torch._utils", "_rebuild_qtensor", storage("0", "QInt8Storage", 24), 0, (2,), (1,),
                     (named("torch", "per_tensor_affine"), 0.5), False, collections.OrderedDict()), six),
        "without scale or zero point")
refuses("a quantized tensor of many scales without their axis",
        archive(Call("torch._utils", "_rebuild_qtensor", storage("0", "QInt8Storage", 24), 0, (2,), (1,),
                     (named("torch", "per_channel_affine"), T, T), False, collections.OrderedDict()), six),
        "without scale or zero point")
refuses("a tensor without arguments", archive(Call("torch._utils", "_rebuild_tensor_v2"), six), "storage")
refuses("one storage of two sizes",
        archive([T, tensor(storage("0", "FloatStorage", 5), 0, (5,), (1,))], six), "24 bytes", "20 bytes")
refuses("an unknown rebuild function", archive(Call("torch._utils", "_rebuild_thing", T), six), "_rebuild_thing")
wrapped = T
for _ in range(60):
    wrapped = Call("torch._utils", "_rebuild_parameter", wrapped, True, collections.OrderedDict())
refuses("sixty wrappers", archive(wrapped, six), "not a single tensor")
whole = overlapping(b"first ", b"second")
check("Python reads the archive with overlapping members",
      zipfile.ZipFile(io.BytesIO(whole)).namelist()[2] == "archive/data/1")
refuses("storages that share bytes of the archive", whole, "overlap")
refuses("two data.pkl", archive(T, six, extra=[("b/data.pkl", b"x")]), "data.pkl")
refuses("no data.pkl", archive(T, six)[:0] + archive(T, six).replace(b"data.pkl", b"data.pkm"), "no data.pkl")
real = open(os.path.join(DATA, "hf/torchsave_quantized/q.pt"), "rb").read()
refuses("two archives in one file", real + real, "several archives in one file")
refuses("an archive behind other bytes", b"PK\3\4" + bytes(60) + real, "bytes put in front")
reads("an archive followed by other bytes", good + bytes(99), {"w": ([2, 3], F4)})
refuses("an empty file", b"", "empty")
refuses("a web page", b"<!DOCTYPE html><html></html>", "web page")
refuses("a Git LFS pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull")
refuses("a plain pickle", pickle.dumps({"a": 1}), "not written by torch.save")
refuses("an older pickle", pickle.dumps({"a": 1}, 2), "not written by torch.save")
for first in ("tensors2", "storage"):
    refuses(f"a tar whose first member is {first}", tar([(first, text(2))]), "not a file of torch.save")
refuses("noise", bytes(range(7, 255)), "not a file of torch.save")

V3 = ("torch._utils", "_rebuild_tensor_v3")
RAW, INT32 = storage("0", "UntypedStorage", 24, where="torch.storage"), named("torch", "int32")
V3_END = (False, collections.OrderedDict())
META = ("torch._utils", "_rebuild_meta_tensor_no_storage")
for what, word, value in (
        ("an offset that is no size", 'the offset of a tensor in its storage "0" is not a size', tensor(S, "1", (2,), (1,))),
        ("a dtype that is none", "the dtype of a tensor is not a dtype", Call(*V3, RAW, 0, (2,), (1,), *V3_END, 5)),
        ("a dtype that nobody knows", 'tensors of dtype "float7" cannot be read', Call(*V3, RAW, 0, (2,), (1,), *V3_END, named("torch", "float7"))),
        ("integers on a storage of floats", 'a tensor of int32 on a storage "0" of float32', Call(*V3, S, 0, (2,), (1,), *V3_END, INT32)),
        ("a view of two integers a byte", "a view of a tensor of quint4x2",
         Call("torch._utils", "_rebuild_qtensor", packed, 1, (2, 5), (5, 1), (named("torch", "per_tensor_affine"), 0.5, 1), False, collections.OrderedDict())),
        ("a meta tensor without a stride", "a meta tensor has an impossible shape or strides", Call(*META, INT32, (2, 3), (1,), False)),
        ("a meta tensor beyond 64 bits", "a meta tensor has an impossible shape or strides", Call(*META, INT32, (1 << 40, 1 << 40), (1, 1), False)),
        ("a device's tensor of another type", "a tensor of float16 that is stored as float32",
         Call("torch._utils", "_rebuild_device_tensor_from_cpu_tensor", T, named("torch", "float16"), "xla:0", False)),
):
    refuses(what, archive({"w": value}, six), word)
refuses("bytes that begin within an element", legacy({"w": Call(*V3, storage("7", "UntypedStorage", 24, ("8", 2, 8), where="torch.storage"), 0, (2,), (1,), *V3_END, INT32)},
                                                      {"7": (24, F4)}), 'storage "7" begins within an element')
reads("… on one", legacy({"w": Call(*V3, storage("7", "UntypedStorage", 24, ("8", 4, 8), where="torch.storage"), 0, (2,), (1,), *V3_END, INT32)}, {"7": (24, F4)}),
      {"w": ([2], F4[4:12])}, "legacy")

LAYOUT = ("torch.serialization", "_get_layout")
for what, word, value in (
        ("a sparse tensor without values", "a tensor of layout sparse_coo lacks its values",
         Call("torch._utils", "_rebuild_sparse_tensor", Call(*LAYOUT, "torch.sparse_coo"), (T, T))),
        ("a compressed tensor without values", "a tensor of layout sparse_csr lacks its values",
         Call("torch._utils", "_rebuild_sparse_csr_tensor", Call(*LAYOUT, "torch.sparse_csr"), (T, T, T))),
        ("an unknown layout", 'a sparse tensor of layout "sparse_star"', Call("torch._utils", "_rebuild_sparse_tensor", Call(*LAYOUT, "torch.sparse_star"), (T, T, T))),
        ("a nested tensor of three parts", "a nested tensor without buffer, sizes, strides and offsets", Call("torch._utils", "_rebuild_nested_tensor", T, T, T)),
):
    refuses(what, archive({"w": value}, six), word)
reads("a sparse tensor whose layout is an object", archive({"w": Call("torch._utils", "_rebuild_sparse_tensor", named("torch", "sparse_coo"), (T, T, (9,)))}, six),
      {"w.indices": ([2, 3], F4), "w.values": ([2, 3], F4)})

# ---- tensors of several processes -------------------------------------------------------------------

MESH = tensor(storage("1", "LongStorage", 2), 0, (2,), (1,))
SHARD = Call("torch.distributed.tensor.placement_types", "Shard", 0)
WRAP = (named("torch._utils", "_rebuild_wrapper_subclass"), named("torch.distributed.tensor", "DTensor"))
F32 = named("torch", "float32")


def objects(name, **state):
    return Call("torch.distributed", name, state=state)


def mesh(grid, at=None):
    """A mesh as torch keeps it until 2.13, of the process that stands at `at`."""
    return objects("DeviceMesh", mesh=grid, **({} if at is None else {"_coordinate_on_dim": at}))


def layout(shape, stride=1):
    """As 2.14 does."""
    return objects("DeviceMesh", _layout=objects("Layout", axes=(objects("Axis", shape=shape, stride=stride),)), _coordinate_on_dim=[1])


def dtensor(mesh, places=(SHARD,), shape=(4, 3), stride=(3, 1), **fields):
    fields = {"_local_tensor": T, "_spec": objects("DTensorSpec", mesh=mesh, placements=places), **fields}
    return archive({"w": Call("torch._tensor", "_rebuild_from_type_v2", *WRAP, (WRAP[1], F32, shape, stride, 0, None, "cpu", False),
                              {k: v for k, v in fields.items() if v})}, {**six, "1": struct.pack("<2q", 3, 1)})


def rows_of(data):
    run, rows = dump(put(data))
    return [r[1:] for r in rows[1:]] if run.returncode == 0 else run.stderr


for what, data, axis, ranks in (("a tensor of ranks", dtensor(mesh(MESH, [1])), "1/2:shard:0", "3,1"), ("a layout", dtensor(layout(2)), "1/2:shard:0", ""),
                                ("a nested layout", dtensor(layout((2, 3))), "1/6:shard:0", ""),
                                ("a strided shard", dtensor(layout(2), (objects("_StridedShard", dim=1, split_factor=3),)), "1/2:strided:1", ""),
                                ("ranks that are no integers", dtensor(mesh(tensor(S, 0, (2,), (1,)), [1])), "1/2:shard:0", "")):
    got = rows_of(data)
    check(f"a DTensor over {what}", got[0] == ["dtensor", "float32", "4,3", axis, ranks] and got[1][2] == "2,3", got)
for what, word, data in (
        ("a layout of no rank", "a device mesh with an empty axis", dtensor(layout(0))),
        ("a nested layout of no rank", "a device mesh with an empty or endless axis", dtensor(layout((2, 0)))),
        ("a nested layout beyond 64 bits", "a device mesh with an empty or endless axis", dtensor(layout((1 << 40, 1 << 40)))),
        ("a layout of a text", "the device mesh of a tensor", dtensor(layout("2"))),
        ("no ranks", "a DTensor whose device mesh has no tensor of ranks", dtensor(mesh(2))),
        ("more placements than axes", "a device mesh of 1 axes for a DTensor with more placements", dtensor(mesh(MESH), (SHARD, SHARD))),
        ("an unknown placement", 'a DTensor with the placement "Ragged"', dtensor(mesh(MESH), (objects("Ragged", dim=0),))),
        ("a dimension that it has not", "a DTensor of 2 dimensions is cut along a dimension that it lacks", dtensor(mesh(MESH), (objects("Shard", dim=2),))),
        ("no split factor", "a strided shard without a split factor", dtensor(mesh(MESH), (objects("_StridedShard", dim=0),))),
        ("a split factor of nothing", "a strided shard without a split factor", dtensor(mesh(MESH), (objects("_StridedShard", dim=0, split_factor=0),))),
        ("no placements", "a DTensor without a device mesh or placements", dtensor(mesh(MESH), None)),
        ("a rank outside", "a DTensor whose rank is outside its device mesh", dtensor(mesh(MESH, [2]))),
        ("strides too few", "a DTensor with an impossible shape or strides", dtensor(mesh(MESH), stride=(1,))),
        ("more bytes than any file", "a DTensor with an impossible shape or strides", dtensor(mesh(MESH), shape=(1 << 62, 3))),
        ("no spec", "a DTensor without its local tensor or its spec", dtensor(mesh(MESH), _spec=None))):
    refuses(f"a DTensor with {what}", data, word)


def shard(off, size, placement="rank:1/cpu", more=(("tensor", T),)):
    meta = objects("ShardMetadata", shard_offsets=off, shard_sizes=size, placement=placement)
    return meta, objects("Shard", metadata=meta, **dict(more))


def sharded(boxes=None, size=(4, 3), props=None, state=4, called=False):
    boxes = boxes if boxes is not None else [shard([0, 0], [2, 3], objects("_remote_device", _rank=3)), shard([2, 0], [2, 3])]
    props = props or objects("TensorProperties", dtype=F32)
    meta = objects("ShardedTensorMetadata", shards_metadata=[b[0] for b in boxes] if boxes else None, size=size, tensor_properties=props)
    parts = ([b[1] for b in boxes[:1]], meta, objects("ProcessGroupState", global_rank=3, global_world_size=5), None)[:state]
    where = "torch.distributed._shard.sharded_tensor.api", "ShardedTensor"
    return archive({"w": Call("torch._tensor", "_rebuild_from_type_v2", WRAP[0], named(*where), (None, F32), parts) if called else Call(*where, state=parts)}, six)


SHARDS = [["sharded", "float32", "4,3", "3/5"], ["box", "3", "0,0", "2,3"], ["box", "1", "2,0", "2,3"], ["local", "-", "0,0", "0"]]
for how, data in (("of its class", sharded()), ("of a rebuilt subclass", sharded(called=True)),
                  ("whose properties are a tuple", sharded(props=Call("torch.distributed", "TensorProperties", state=(F32, None))))):
    got = rows_of(data)
    check(f"a ShardedTensor {how}", got[:4] == SHARDS and got[4][:3] == ["dense", "float32", "2,3"], got)
for what, word, data in (
        ("outside its tensor", "a shard that does not lie inside its tensor", sharded([shard([3, 0], [2, 3])])),
        ("of other dimensions", "a shard that does not lie inside its tensor", sharded([shard([0], [2])])),
        ("without shards", "a ShardedTensor without a list of shards", sharded([])),
        ("with a shard of no tensor", "a shard without a tensor", sharded([shard([0, 0], [2, 3], more=())])),
        ("with a shard that is nowhere", "the shard offsets of a tensor", sharded([shard(None, [2, 3])])),
        ("without metadata", "a ShardedTensor without its shards and their metadata", sharded(state=3)),
        ("larger than any file", "the shape of a ShardedTensor is too large for any file", sharded(size=(1 << 61, 4))),
        ("of no dtype", "the dtype of a tensor is not a dtype", sharded(props=objects("TensorProperties", dtype=5)))):
    refuses(f"a ShardedTensor {what}", data, word)

# ---- legacy streams ---------------------------------------------------------------------------------

L = legacy({"w": tensor(storage("7", "FloatStorage", 6, None), 0, (6,), (1,))}, {"7": (6, F4)})
refuses("a legacy count of too many elements", L[:-32] + struct.pack("<q", 2**61) + F4, 'storage "7"')
refuses("a negative legacy count", L[:-32] + struct.pack("<q", -1) + F4, 'storage "7"')
refuses("a legacy storage that no value uses", legacy({"w": 1}, {"7": (6, F4)}), "no value uses it")
refuses("a legacy key listed twice", b"".join(
    text(x) for x in (MAGIC, 1001, {}, {"w": 1}, ["7", "7"])), "listed twice")
refuses("legacy keys that are no list", b"".join(text(x) for x in (MAGIC, 1001, {}, {"w": 1}, {"7": 1})), "the list of storage keys is not a list")
refuses("a legacy key that is a number", b"".join(text(x) for x in (MAGIC, 1001, {}, {"w": 1}, ["7", 8])), "storage key 1 is not text")
refuses("a legacy storage that is not listed", legacy({"w": tensor(storage("7", "FloatStorage", 6, None), 0, (6,), (1,))}),
        'storage "7" is missing: the file does not list it')
reads("a legacy stream with a class's source", legacy({"w": tensor(storage("7", "FloatStorage", 6, None), 0, (6,), (1,)), "c": Pid("module", named("torch", "FloatTensor"), "net.py", "class Net")},
                                                      {"7": (6, F4)}), {"w": ([6], F4)}, "legacy")
refuses("another legacy protocol", b"".join(text(x) for x in (MAGIC, 1002, {}, {}, [])), "1001")
refuses("a legacy view outside its storage",
        legacy({"w": tensor(storage("7", "FloatStorage", 6, ("8", 4, 4)), 0, (1,), (1,))}, {"7": (6, F4)}), "view")

for name, path, step in (
        ("zip", os.path.join(DATA, "hf/torchsave_meta_and_empty/m.pt"), "1"),
        ("sharded zip", os.path.join(DATA, "dcp/torch1.13/rank1.pt"), "64"),
        ("deflated zip", os.path.join(DATA, "hf/torchsave_rezipped_deflate/m.pt"), "64"),
        ("legacy stream", os.path.join(DATA, "hf/torchsave_legacy_views/pytorch_model.bin"), "1")):
    run, _ = dump(path, "--cut", step)
    check(f"each truncation of a {name} is refused", run.returncode == 0, run.stdout + run.stderr)

done()
