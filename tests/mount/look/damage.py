# SPDX-License-Identifier: Apache-2.0
"""damage.py CHECK ARGUMENTS: a damaged checkpoint beside the whole one; an exception is a failure."""
import errno
import hashlib
import json
import math
import mmap
import os
import signal
import struct
import subprocess
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import readers  # pylint: disable=wrong-import-position

PAGE = mmap.PAGESIZE
ALL = ("", "npy", "as/f32", "hf")


def files(mnt, below=ALL):
    return [os.path.join(d, f) for d in below for f in sorted(os.listdir(os.path.join(mnt, d)))
            if not os.path.isdir(os.path.join(mnt, d, f)) and f != "pytorch_model.bin"]


def content(path):
    with open(path, "rb") as f:
        return f.read()


def st_head(path):
    """Length and entries of a safetensors header."""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", os.pread(f.fileno(), 8, 0))
        head = json.loads(os.pread(f.fileno(), n, 8))
    return 8 + n, head


def wanted(mnt, whole, name):
    """A file of the damaged mount as it would be if nothing were lost: a safetensors file has its damaged tensors at
    the end, so it is put together by its own header from the tensors of the whole one."""
    want = content(os.path.join(whole, name))
    if not name.endswith(".safetensors"):
        return want
    path = os.path.join(mnt, name)
    (at, head), (at_whole, head_whole) = st_head(path), st_head(os.path.join(whole, name))
    with open(path, "rb") as f:
        out = os.pread(f.fileno(), at, 0)
    for tensor in sorted(head.keys() - {"__metadata__"}, key=lambda t: head[t]["data_offsets"]):
        lo, hi = head_whole[tensor]["data_offsets"]
        assert {**head[tensor], "data_offsets": [lo, hi]} == head_whole[tensor], tensor
        assert head[tensor]["data_offsets"][0] == len(out) - at, tensor
        out += want[at_whole + lo:at_whole + hi]
    assert head.keys() == head_whole.keys()
    return out


def lost_bytes(path, size):
    """Which bytes read(2) does not give, asked one by one."""
    out = set()
    fd = os.open(path, os.O_RDONLY)
    for at in range(size):
        try:
            assert len(os.pread(fd, 1, at)) == 1, (path, at)
        except OSError as e:
            assert e.errno == errno.EIO, (path, at, e)
            out.add(at)
    os.close(fd)
    return out


def mapped_page(view, at, n):
    """A page of a mapping through a pipe: write(2) says EFAULT where touching it would be SIGBUS."""
    r, w = os.pipe()
    try:
        return os.read(r, os.write(w, view[at:at + n]))
    except OSError as e:
        return e.errno
    finally:
        os.close(r)
        os.close(w)


def touch(path, at):
    """The signal that ends who touches that byte of a private mapping."""
    pid = os.fork()
    if pid == 0:
        fd = os.open(path, os.O_RDONLY)
        view = mmap.mmap(fd, 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
        os._exit(view[at] * 0)
    return os.waitpid(pid, 0)[1]


def maps_one(path, want):
    """Every page of a private mapping: right if no byte of it is lost, else an error.  Returns whether there was one."""
    size = os.stat(path).st_size
    assert size == len(want), f"{path}: {size} bytes, not {len(want)}"
    lost = lost_bytes(path, size)
    fd = os.open(path, os.O_RDONLY)
    whole_map = mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ)
    view = memoryview(whole_map)
    for _ in range(2):
        for at in range(0, size, PAGE):
            n = min(PAGE, size - at)
            bad = any(k in lost for k in range(at, at + n))
            got = mapped_page(view, at, n)
            assert got == (errno.EFAULT if bad else want[at:at + n]), (path, at, bad, got)
        assert os.fstat(fd).st_size == os.stat(path).st_size == size, f"{path}: its size became {os.fstat(fd).st_size}"
    view.release()
    whole_map.close()
    os.close(fd)
    if lost:
        assert touch(path, min(lost)) == signal.SIGBUS, path
        assert lost == lost_bytes(path, size), f"{path}: other bytes are lost after it was mapped"
    return bool(lost)


def archive(path, want):
    """Python's zipfile reads what of a damaged archive is healthy.  Its directory is never near lost bytes."""
    seen = lost = 0
    with zipfile.ZipFile(path) as here, zipfile.ZipFile(want) as there:
        for info in there.infolist():
            mine = here.getinfo(info.filename)
            mine.CRC = info.CRC = None if "/data/" in info.filename else info.CRC
            try:
                assert here.read(mine) == there.read(info), info.filename
                seen += 1
            except OSError as e:
                assert e.errno == errno.EIO, (info.filename, e)
                lost += 1
    assert seen > 10 and lost > 2, (seen, lost)


def maps(mnt, whole):
    archive(os.path.join(mnt, "pytorch_model.bin"), os.path.join(whole, "pytorch_model.bin"))
    damaged = [f for f in files(whole) if maps_one(os.path.join(mnt, f), wanted(mnt, whole, f))]
    assert 10 < len(damaged) < len(files(whole)) - 10, damaged


def ranges(path):
    """{tensor, or record of an archive: (begin, end)} in a bulk file."""
    if path.endswith(".safetensors"):
        at, head = st_head(path)
        head.pop("__metadata__", None)
        return {t: [at + k for k in e["data_offsets"]] for t, e in head.items()}
    out = {}
    with zipfile.ZipFile(path) as z, open(path, "rb") as f:
        for i in z.infolist():
            name, extra = struct.unpack("<HH", os.pread(f.fileno(), 4, i.header_offset + 26))
            begin = i.header_offset + 30 + name + extra
            out[i.filename] = begin, begin + i.file_size
    return out


def healthy_maps(mnt, whole):
    """No healthy tensor of a bulk file is on a page with a lost byte: mapped, all of it is there."""
    for f in ("model.safetensors", "hf/model.safetensors", "as/f32/model.safetensors", "pytorch_model.bin"):
        path = os.path.join(mnt, f)
        size = os.stat(path).st_size
        lost = lost_bytes(path, size)
        fd = os.open(path, os.O_RDONLY)
        seen = 0
        with mmap.mmap(fd, 0, mmap.MAP_PRIVATE, mmap.PROT_READ) as whole_map, memoryview(whole_map) as view, \
                open(os.path.join(whole, f), "rb") as sound:
            there = ranges(os.path.join(whole, f))
            for name, (lo, hi) in ranges(path).items():
                if lost.isdisjoint(range(lo, hi)) and name in there:
                    got = b"".join(mapped_page(view, at, min(PAGE, hi - at)) for at in range(lo, hi, PAGE))
                    assert got == os.pread(sound.fileno(), hi - lo, there[name][0]), (f, name)
                    seen += 1
        assert os.fstat(fd).st_size == size
        os.close(fd)
        assert seen > 10 and lost, (f, seen)


def shard_end(path):
    """{tensor: how many of its bytes a cut safetensors file still holds}"""
    data = content(path)
    (n,) = struct.unpack_from("<Q", data)
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__", None)
    there = len(data) - 8 - n
    return {t: max(0, min(there, e["data_offsets"][1]) - e["data_offsets"][0]) for t, e in head.items()}


def reads(mnt, whole, shard):
    kept = shard_end(shard)
    seen = 0
    for f in files(whole, ("",)):
        name = os.path.splitext(f)[0]
        if name not in kept:
            continue
        want = content(os.path.join(whole, f))
        lost = lost_bytes(os.path.join(mnt, f), len(want))
        assert lost == set(range(kept[name], len(want))), (f, kept[name], sorted(lost)[:1])
        fd = os.open(os.path.join(mnt, f), os.O_RDONLY)
        got = os.pread(fd, 1 << 20, 0) if kept[name] else b""
        os.close(fd)
        assert got == want[:kept[name]], (f, len(got))
        seen += bool(lost)
    assert seen > 2, seen


def sends(mnt, whole):
    """sendfile(2) fills the page cache: what it hands on must be right, and short of the damage."""
    for f in files(whole, ("", "hf")):
        want = wanted(mnt, whole, f)
        source, sink = os.open(os.path.join(mnt, f), os.O_RDONLY), os.memfd_create("sink")
        at = 0
        try:
            while at < len(want):
                n = os.sendfile(sink, source, at, len(want) - at)
                assert n, f"{f}: ends at {at}"
                at += n
        except OSError as e:
            assert e.errno == errno.EIO, (f, e)
        assert os.pread(sink, len(want) + 1, 0) == want[:at], f
        os.close(source)
        os.close(sink)


def header_apart(mnt):
    """The first tensor is lost: the header and every other tensor of model.safetensors are mapped all the same."""
    with open(os.path.join(mnt, "model.safetensors"), "rb") as f, \
            mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ) as view:
        whole_view = memoryview(view)
        (n,) = struct.unpack("<Q", bytes(mapped_page(whole_view, 0, 8)))
        head = json.loads(mapped_page(whole_view, 8, n))
        assert (8 + n) % PAGE == 0, n
        lo, hi = (8 + n + k for k in head["b"]["data_offsets"])
        got = b"".join(mapped_page(whole_view, at, min(PAGE, hi - at)) for at in range(lo, hi, PAGE))
        assert got == bytes(k % 251 for k in range(16384)), "b is wrong"
        assert mapped_page(whole_view, 8 + n + head["a"]["data_offsets"][0], 4) == errno.EFAULT
        whole_view.release()


def make_headless(path):
    """Two shards; the one with the first tensor holds nothing of it."""
    os.mkdir(path)
    index = {}
    for name, data, end in (("a", bytes(16384), 0), ("b", bytes(k % 251 for k in range(16384)), 16384)):
        head = json.dumps({name: {"dtype": "F32", "shape": [4096], "data_offsets": [0, 16384]}}).encode()
        index[name] = f"model-{len(index) + 1:05}-of-00002.safetensors"
        with open(os.path.join(path, index[name]), "wb") as f:
            f.write(struct.pack("<Q", len(head)) + head + data[:end])
    with open(os.path.join(path, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": index}, f)


# ---- who says what is lost -------------------------------------------------------------------------------

LOST = {"model.layers.1.self_attn.o_proj.weight": (312, 512), "model.layers.1.self_attn.q_proj.weight": (0, 512),
        "model.layers.1.self_attn.v_proj.weight": (0, 256), "model.norm.weight": (0, 32)}


def check_ranges(entries, file):
    """Exactly the damaged tensors, with the bytes that are lost, the file and the reason."""
    found = {}
    for e in entries:
        (r,) = e["lost_bytes"]
        assert (r["file"], r["why"], e["set"]) == (file, "ends at byte 10024", ""), e
        found[e["name"]] = (r["first"], r["end"])
    assert found == LOST, found


def names_in_mount(mnt, file):
    index = json.loads(content(os.path.join(mnt, ".zerofs/index.json")))
    check_ranges([t for t in index["tensors"] if t.get("lost")], file)
    for name in LOST:
        path = os.path.join(mnt, name + ".bf16")
        lost_bytes(path, os.stat(path).st_size)
    log = content(os.path.join(mnt, ".zerofs/log")).decode()
    for name, (first, end) in LOST.items():
        line = f'{file}: ends at byte 10024; bytes {first} to {end - 1} of the tensor "{name}" are lost'
        assert log.count(line) == 1, f"{line}: {log.count(line)} times in {log}"
    maps = [line for line in log.splitlines() if "lost=omit" in line and "lost=nan" in line]
    assert len(maps) == 1, log


def names_in_info(zerofs, ckpt, *options):
    def run(*words):
        done = subprocess.run([zerofs, "info", "-v", *words, ckpt, "-o", "degraded", *options], check=False, text=True,
                              capture_output=True)
        assert done.returncode == 4, done
        return done.stdout
    file = os.path.join(ckpt, "model.safetensors")
    check_ranges(json.loads(run("--json"))["lost"], file)
    text = run()
    for name, (first, end) in LOST.items():
        line = f"{name}: bytes {first} to {end - 1} of {readable_size(ckpt, name)}: {file} ends at byte 10024\n"
        assert text.count(line) == 1, (line, text)


def readable_size(ckpt, name):
    data = content(os.path.join(ckpt, "model.safetensors"))
    (n,) = struct.unpack_from("<Q", data)
    lo, hi = json.loads(data[8:8 + n])[name]["data_offsets"]
    return hi - lo


# ---- lost=omit -------------------------------------------------------------------------------------------

def mapped(path):
    """The file as a shared mapping has it, which is how numpy reads."""
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as view:
        return view[:]


def omits(mnt, whole):
    for below, widen in (("", ""), ("as/f32", "f32"), ("as/f16", "f16")):
        here, there = os.path.join(mnt, below), os.path.join(whole, below)
        want = readers.safetensors(content(os.path.join(there, "model.safetensors")))
        healthy = {n: t for n, t in want.items() if n not in LOST}
        for f in ("model.safetensors", "hf/model.safetensors"):
            assert readers.safetensors(mapped(os.path.join(here, f))) == healthy, (below, f)
        found = readers.torch_zip(mapped(os.path.join(here, "pytorch_model.bin")))
        full = readers.torch_zip(content(os.path.join(there, "pytorch_model.bin")))
        assert {n: t[:3] for n, t in found.items()} == {n: t[:3] for n, t in full.items() if n not in LOST}
        names = {f[:-4] for f in os.listdir(os.path.join(here, "npy")) if f.endswith(".npy")}
        assert names == set(healthy), names
        for name in healthy:
            npy = os.path.join("npy", name + ".npy")
            assert mapped(os.path.join(here, npy)) == content(os.path.join(there, npy)), npy
        for name in LOST:
            assert not os.path.exists(os.path.join(here, "npy", name + ".npy"))
            raw = [f for f in os.listdir(here) if f.startswith(name + ".")]
            assert len(raw) == 1 and lost_bytes(os.path.join(here, raw[0]), os.stat(os.path.join(here, raw[0])).st_size)
        for d in ("", "npy", "hf"):
            lost = json.loads(content(os.path.join(here, d, "LOST.json")))
            assert lost["schema"] == "zerofs.lost/1", lost
            check_ranges(lost["lost"], lost["lost"][0]["lost_bytes"][0]["file"])


# ---- lost=nan --------------------------------------------------------------------------------------------

TYPES = [("f64", "F64", 8), ("f32", "F32", 4), ("f16", "F16", 2), ("bf16", "BF16", 2), ("f8_e4m3", "F8_E4M3", 1),
         ("f8_e5m2", "F8_E5M2", 1), ("i64", "I64", 8), ("u8", "U8", 1)]


def make_mixed(whole, cut):
    """For every type a tensor of which the second half is lost: each has a file of its own, for cutting."""
    index = {"metadata": {}, "weight_map": {}}
    os.mkdir(whole)
    os.mkdir(cut)
    for k, (suffix, dtype, width) in enumerate(TYPES):
        count = 601
        data = b"".join(hashlib.sha256(b"%d %d" % (k, i)).digest() for i in range(count * width // 32 + 1))
        data = bytes(b & 0x3F for b in data[:count * width])  # no NaN, in any type
        head = json.dumps({"t." + suffix: {"dtype": dtype, "shape": [count], "data_offsets": [0, len(data)]}}).encode()
        name = f"model-{k + 1:05}-of-{len(TYPES):05}.safetensors"
        index["weight_map"]["t." + suffix] = name
        for folder, end in ((whole, len(data)), (cut, len(data) // 2 + 1)):
            with open(os.path.join(folder, name), "wb") as f:
                f.write(struct.pack("<Q", len(head)) + head + data[:end])
    for folder in (whole, cut):
        with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
            json.dump(index, f)


def number(raw, suffix):
    """A float from its bytes; the 8-bit kinds through readers.py, which knows them from their paper."""
    if suffix == "bf16":
        return struct.unpack("<f", b"\0\0" + raw)[0]
    if suffix.startswith("f8"):
        return struct.unpack("<f", readers.f8(raw[0], readers.SUFFIXES[suffix]))[0]
    return struct.unpack({"f64": "<d", "f32": "<f", "f16": "<e"}[suffix], raw)[0]


def check_nans(got, want, suffix, first, where):
    """Elements from `first` on are NaN, with the quiet bit set; the others are as they were."""
    width = readers.TYPES[readers.SUFFIXES[suffix]][1]
    assert len(got) == len(want) and got[:first * width] == want[:first * width], where
    for at in range(first * width, len(got), width):
        assert math.isnan(number(got[at:at + width], suffix)), (where, at, got[at:at + width])
    assert not any(math.isnan(number(want[at:at + width], suffix)) for at in range(0, len(want), width)), where
    quiet = {"f64": 0x7FF8 << 48, "f32": 0x7FC0 << 16, "f16": 0x7E00, "bf16": 0x7FC0}.get(suffix)
    assert quiet is None or int.from_bytes(got[-width:], "little") == quiet, (where, got[-width:])


def nans(mnt, whole, _shard):
    for suffix, _, width in TYPES:
        name = f"t.{suffix}.{suffix}"
        first = (601 * width // 2 + 1) // width
        if suffix in ("i64", "u8"):
            lost = lost_bytes(os.path.join(mnt, name), 601 * width)
            assert lost == set(range(601 * width // 2 + 1, 601 * width)), (name, len(lost))
            continue
        check_nans(mapped(os.path.join(mnt, name)), content(os.path.join(whole, name)), suffix, first, name)
        for to in ("f32", "f16", "bf16"):
            cast = f"as/{to}/t.{suffix}.{to}"
            check_nans_of_cast(mapped(os.path.join(mnt, cast)), content(os.path.join(whole, cast)), to, first, cast)
        npy = f"npy/t.{suffix}.npy"
        descr, shape, data = readers.npy(mapped(os.path.join(mnt, npy)))
        wide = {"<f4": "f32", "<f8": "f64", "<f2": "f16"}[descr]
        assert shape == (601,)
        check_nans_of_cast(data, readers.npy(content(os.path.join(whole, npy)))[2], wide, first, npy)


def check_nans_of_cast(got, want, suffix, first, where):
    width = readers.TYPES[readers.SUFFIXES[suffix]][1]
    assert len(got) == len(want) and got[:first * width] == want[:first * width], where
    assert all(math.isnan(number(got[at:at + width], suffix)) for at in range(first * width, len(got), width)), where


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
