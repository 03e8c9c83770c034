# SPDX-License-Identifier: Apache-2.0
"""mount.py CHECK ARGUMENTS: looks at a mounted checkpoint; an exception is a failure."""
import ast
import hashlib
import json
import mmap
import os
import re
import stat
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import readers  # noqa: E402 pylint: disable=wrong-import-position

SUFFIX = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
          "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool"}
PRESENTATIONS = {"npy", "as", "hf", "state", ".zerofs", "model.safetensors", "pytorch_model.bin"}


def content(*parts):
    with open(os.path.join(*parts), "rb") as f:
        return f.read()


def raw_files(directory):
    """The raw tensors of a set: name without suffix -> (file name, dtype)."""
    out = {}
    for f in os.listdir(directory):
        path = os.path.join(directory, f)
        if f not in PRESENTATIONS and os.path.isfile(path) and "user.zerofs.dtype" in os.listxattr(path):
            name, dtype = f.rsplit(".", 1)
            out[name] = (f, dtype)
    return out


def file_name(key, dtype):
    """zerofs(5), "File names"."""
    suffix = "." + SUFFIX[dtype.replace("torch.", "")]
    raw = key.encode("utf-8", "surrogateescape")
    name = b"".join(b"%%%02X" % c if c < 32 or c in b"%/\x7f" or (c == 46 and i == 0) else bytes([c])
                    for i, c in enumerate(raw + suffix.encode()))
    if len(name) > 255:
        tail = ("~" + hashlib.sha256(raw).hexdigest()[:16] + suffix).encode()
        name = re.sub(rb"%.?$", b"", name[:255 - len(tail)].decode("utf-8", "ignore").encode()) + tail
    return os.fsdecode(name)


def wanted(e):
    """(path, digest) of what the framework recorded."""
    for name, states in e.get("params", {}).items():
        for key, v in states.items():
            if isinstance(v, dict) and "sha256" in v:
                yield ("" if key == "fp32" else f"optim/{key}/") + file_name(name, v["dtype"]), v["sha256"]
    for section in ("frozen", "buffers"):
        for name, v in e.get(section, {}).items():
            yield file_name(name, v["dtype"]), v["sha256"]
    for name, v in e.get("tensors", {}).items():
        if "sha256" not in v:
            continue
        optim = re.match(r"optim\.state\.(.*)\.(\w+)$", name)
        if optim:
            yield f"optim/{optim[2]}/" + file_name(optim[1], v["dtype"]), v["sha256"]
        else:
            container = e.get("container") or ""
            beside = container and not name.startswith(container)
            yield ("extra/" if beside else "") + file_name(name[0 if beside else len(container):], v["dtype"]), v["sha256"]


def digests(mnt, expected):
    with open(expected) as f:
        all_wanted = list(wanted(json.load(f)))
    assert len(all_wanted) > 5, "the record holds next to nothing"
    wrong = []
    for path, digest in all_wanted:
        try:
            if hashlib.sha256(content(mnt, path)).hexdigest() != digest:
                wrong.append(f"differs: {path}")
        except OSError as e:
            wrong.append(f"{path}: {e.strerror}")
    assert not wrong, "\n".join(wrong)


def proc_mounts(mnt, source):
    with open("/proc/self/mounts") as f:
        lines = [line.split() for line in f if line.split()[1] == mnt]
    assert len(lines) == 1, lines
    where, _, kind, options = lines[0][:4]
    assert where == os.path.realpath(source) and kind == "fuse.zerofs", lines
    for o in ("ro", "nosuid", "nodev", "noexec", "default_permissions"):
        assert o in options.split(","), options


def make_safetensors(path, *keys):
    """One f32 tensor a key, stored in an order of its own."""
    head = {k: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i, k in enumerate(sorted(keys))}
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + bytes(4 * len(keys)))


def natural_order(mnt, *expected):
    """Tensors in natural order; the presentations stand before them."""
    for d in (mnt, os.path.join(mnt, "npy"), os.path.join(mnt, "as/f16")):
        with os.scandir(d) as it:
            names = [x.name for x in it]
        assert len(set(names)) == len(names), d
        names = [x for x in names if x not in PRESENTATIONS]
        assert [re.sub(r"\.(f16|f32|npy)$", "", x) for x in names] == list(expected), (d, names)


def attributes(mnt, source):
    newest = max(os.stat(os.path.join(d, f)).st_mtime_ns for d, _, fs in os.walk(source) for f in fs)
    for d, ds, fs in os.walk(mnt):
        for name in ds + fs:
            st = os.lstat(os.path.join(d, name))
            is_dir = stat.S_ISDIR(st.st_mode)
            assert stat.S_IMODE(st.st_mode) == (0o555 if is_dir else 0o444), (name, oct(st.st_mode))
            assert (st.st_uid, st.st_gid) == (os.getuid(), os.getgid()), name
            assert st.st_blksize == 1 << 20, (name, st.st_blksize)
            assert 0 < st.st_mtime_ns <= newest, (name, st.st_mtime_ns, newest)
            if not is_dir:
                assert st.st_blocks == (st.st_size + 511) // 512, (name, st.st_blocks)


def ties(mnt, a, b):
    for d in (mnt, os.path.join(mnt, "as/bf16")):
        x, y = (os.path.join(d, f if d == mnt else f.replace(".f32", ".bf16")) for f in (a, b))
        assert os.stat(x).st_ino == os.stat(y).st_ino and os.stat(x).st_nlink == 2, (x, os.stat(x), os.stat(y))
        assert content(x) == content(y)


def inodes(mnt):
    seen = {}
    for d, ds, fs in os.walk(mnt):
        for name in sorted(ds + fs):
            path = os.path.join(d, name)
            st = os.lstat(path)
            print(st.st_ino, os.path.relpath(path, mnt))
            seen.setdefault(st.st_ino, []).append(st.st_nlink)
    for ino, links in seen.items():
        assert len(links) == 1 or set(links) == {len(links)}, (ino, links)


def space(mnt):
    st = os.statvfs(mnt)
    raw = {os.stat(os.path.join(mnt, f)).st_ino: os.stat(os.path.join(mnt, f)).st_size for f, _ in raw_files(mnt).values()}
    assert st.f_blocks > 0 and st.f_bfree == st.f_bavail == st.f_ffree == 0, st
    assert st.f_blocks * st.f_frsize >= sum(raw.values()) and st.f_files >= len(raw), (st, raw)
    assert st.f_namemax == 255 and st.f_flag & os.ST_RDONLY, st


def walk(mnt):
    count = 0
    for d, ds, fs in os.walk(mnt, onerror=sys.exit):
        with os.scandir(d) as it:
            for x in it:
                assert x.inode() == os.lstat(x.path).st_ino, x.path
        for f in fs:
            assert len(content(d, f)) == os.stat(os.path.join(d, f)).st_size, f
            count += 1
        for name in ds:
            assert os.stat(os.path.join(d, name, "..")).st_ino == os.stat(d).st_ino, name
    assert count > 50, count


def attributes_extended(mnt, source):
    path = os.path.join(mnt, "embed.weight.f32")
    have = {k: os.getxattr(path, k) for k in os.listxattr(path)}
    assert have["user.zerofs.dtype"] == b"f32" and json.loads(have["user.zerofs.shape"]) == [7, 5], have
    assert have["user.zerofs.format"] == b"deepspeed" and have["user.zerofs.name"] == b"embed.weight", have
    assert have["user.zerofs.tag"] == b"global_step3" and have["user.zerofs.step"] == b"3", have
    stored = b""
    for s in json.loads(have["user.zerofs.sources"]):
        with open(os.path.join(source, s["file"]), "rb") as f:
            f.seek(s["offset"])
            stored += f.read(s["bytes"])
    assert stored == content(path), "sources do not say where the bytes are"
    assert os.getxattr(os.path.join(mnt, "as/bf16/embed.weight.bf16"), "user.zerofs.dtype") == b"bf16"
    for name in ("user.zerofs.nothing", "security.capability", "system.posix_acl_access"):
        try:
            os.getxattr(path, name)
            raise AssertionError(name)
        except OSError as e:
            # ls asks every file for a name that is only not there; 95 is EOPNOTSUPP, after which it asks no other.
            assert e.errno == (61 if name.startswith("user.zerofs.") else 95), e


def attributes_told(mnt, name, value, listed):
    """value: "" where there are none at all; listed: "listed", "empty" or "never"."""
    path = os.path.join(mnt, name)
    try:
        assert os.getxattr(path, "user.zerofs.shape").decode() == value
    except OSError as e:
        assert e.errno == 95 and not value, e
    try:
        assert ("user.zerofs.shape" in os.listxattr(path)) == (listed == "listed")
    except OSError as e:
        assert e.errno == 95 and listed == "never", e


def npy(mnt):
    kinds = {"f32": "<f4", "i64": "<i8", "bf16": "<f4"}
    for name, (f, dtype) in raw_files(mnt).items():
        b = content(mnt, "npy", name + ".npy")
        assert b[:6] == b"\x93NUMPY" and b[6:8] == b"\1\0", b[:8]
        n = struct.unpack("<H", b[8:10])[0]
        assert (10 + n) % 64 == 0 and b[10 + n - 1:10 + n] == b"\n", n
        head = ast.literal_eval(b[10:10 + n].decode())
        shape = json.loads(os.getxattr(os.path.join(mnt, f), "user.zerofs.shape"))
        assert head == {"descr": kinds[dtype], "fortran_order": False, "shape": tuple(shape)}, head
        data = content(mnt, f)
        if dtype == "bf16":
            data = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
        assert b[10 + n:] == data, name


def read_safetensors(path):
    b = content(path)
    n = struct.unpack("<Q", b[:8])[0]
    assert n % 8 == 0, n
    head = json.loads(b[8:8 + n])
    meta = head.pop("__metadata__", {})
    ends = sorted(tuple(t["data_offsets"]) for t in head.values())
    assert ends[0][0] == 0 and ends[-1][1] == len(b) - 8 - n, ends
    assert all(x[1] == y[0] for x, y in zip(ends, ends[1:])), "a hole or an overlap"
    return meta, {k: (t["dtype"], t["shape"], b[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
                  for k, t in head.items()}


def safetensors(mnt, subset):
    directory = os.path.join(mnt, subset)
    meta, tensors = read_safetensors(os.path.join(directory, "model.safetensors"))
    assert meta == {"format": "pt"}, meta
    raw = raw_files(directory)
    assert set(tensors) == set(raw), set(tensors) ^ set(raw)
    for name, (f, dtype) in raw.items():
        shape = json.loads(os.getxattr(os.path.join(directory, f), "user.zerofs.shape"))
        assert tensors[name] == (dtype.upper(), shape, content(directory, f)), name


def torch_zip(mnt, subset):
    """pytorch_model.bin holds every tensor of the set under its name, and what is tied once."""
    directory = os.path.join(mnt, subset)
    found = readers.torch_zip(content(directory, "pytorch_model.bin"))
    raw = raw_files(directory)
    assert set(found) == set(raw), set(found) ^ set(raw)
    for name, (f, dtype) in raw.items():
        assert (found[name][0], found[name][2]) == (readers.SUFFIXES[dtype], content(directory, f)), name
    assert len({t[3] for t in found.values()}) == len({os.stat(os.path.join(directory, f)).st_ino for f, _ in raw.values()})


def casts(mnt):
    for name, (f, dtype) in raw_files(mnt).items():
        b = content(mnt, f)
        if dtype == "bf16":
            wide = b"".join(b"\0\0" + b[i:i + 2] for i in range(0, len(b), 2))
            assert content(mnt, "as/f32", name + ".f32") == wide, name
            assert content(mnt, "as/bf16", f) == b, name
        elif dtype == "f32":
            want = b"".join(struct.pack("<e", x[0]) for x in struct.iter_unpack("<f", b))
            assert content(mnt, "as/f16", name + ".f16") == want, name
        else:
            assert content(mnt, "as/f16", f) == b, name
    read_safetensors(os.path.join(mnt, "as/f16/model.safetensors"))


def hidden(mnt):
    assert ".zerofs" not in os.listdir(mnt)
    assert os.listdir(os.path.join(mnt, ".zerofs")) == ["index.json", "stats.json", "log", "mount.json", "modes.json"]
    assert os.stat(os.path.join(mnt, ".zerofs/..")).st_ino == os.stat(mnt).st_ino


def large(path):
    """A file of 64 MiB and some of zeros between a 1 and a 2, written as a hole."""
    n = (64 << 20) + 4096
    head = json.dumps({"w": {"dtype": "U8", "shape": [n], "data_offsets": [0, n]}}).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + b"\1")
        f.seek(n - 2, 1)
        f.write(b"\2")


def same_info(of_mount, of_itself):
    """Both say the same but for the mount and the path that was given."""
    with open(of_mount, encoding="utf-8") as a, open(of_itself, encoding="utf-8") as b:
        ours, want = json.load(a), json.load(b)
    mount = ours.pop("mount")
    assert mount["uptime"] >= 0 and mount["bytes"] > 0 and mount["errors"] == 0, mount
    for j in (ours, want):
        for key in ("path", "tag", "saves", "model_kept", "why", "remedies"):
            j.pop(key, None)
    assert ours == want, (ours, want)


def modes(mnt, io, path):
    """io: "cached", or "direct" where this kernel and libfuse grant it; path: a file of 64 MiB and more, all zeros but the
    first and the last byte, which are 1 and 2.  It is mapped shared in either mode."""
    m = json.loads(content(mnt, ".zerofs/modes.json"))
    assert m["schema"] == "zerofs.modes/1" and m["why"], m
    assert m["io"] in ("cached", io), m
    assert m["io"] == "direct" or io == "cached" or "map" in m["why"], m
    st = os.stat(mnt)
    with open(f"/sys/class/bdi/{os.major(st.st_dev)}:{os.minor(st.st_dev)}/read_ahead_kb", encoding="ascii") as f:
        assert int(f.read()) == m["read_ahead_kib"], m
    assert bool(m["remedy"]) == (m["read_ahead_kib"] < m["read_ahead_wanted_kib"]), m
    path = os.path.join(mnt, path)
    size = os.stat(path).st_size
    with open(path, "rb", buffering=0) as f, mmap.mmap(f.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ) as shared:
        for at, want in ((0, b"\1\0"), (size - 2, b"\0\2"), (size // 2, b"\0\0")):
            assert shared[at:at + 2] == want == os.pread(f.fileno(), 2, at), at
        assert os.pread(f.fileno(), 10, size - 1) == b"\2" and os.pread(f.fileno(), 10, size) == b""
    assert past_cache(mnt, path) == (m["io"] == "direct"), m


def past_cache(mnt, path):
    """The counters tell: what goes past the cache is asked for again."""
    fd = os.open(path, os.O_RDONLY)
    reads = lambda: sum(s["reads"] for s in json.loads(content(mnt, ".zerofs/stats.json"))["sources"])
    os.pread(fd, 1 << 20, 1 << 20)
    before = reads()
    os.pread(fd, 1 << 20, 1 << 20)
    os.close(fd)
    return reads() > before


def mapped(mnt, asked):
    """What programs map stays in the cache unless io=direct was asked for."""
    m = json.loads(content(mnt, ".zerofs/modes.json"))
    past = past_cache(mnt, os.path.join(mnt, "model.safetensors"))
    assert past == (m["io"] == "direct" and asked == "direct"), (past, m)


def index(mnt):
    i = json.loads(content(mnt, ".zerofs/index.json"))
    assert i["schema"] == "zerofs.index/1" and i["format"] == "deepspeed" and i["step"] == 3, i
    told = {os.path.join(t["set"], t["file"]): t for t in i["tensors"]}
    there = {os.path.relpath(os.path.join(d, f), mnt) for d in [mnt, mnt + "/trained"] + [x[0] for x in os.walk(mnt + "/optim")]
             if not set(os.path.relpath(d, mnt).split("/")) & {"npy", "as", "hf"} for _, (f, _) in raw_files(d).items()}
    assert set(told) == there, set(told) ^ there
    assert [t["name"] for t in i["tensors"] if "alias_of" in t] == ["head.weight"], i["tensors"]
    for path, t in told.items():
        at = os.path.join(mnt, path)
        assert os.stat(at).st_size == t["bytes"], path
        assert os.getxattr(at, "user.zerofs.dtype").decode() == t["dtype"], path
        assert json.loads(os.getxattr(at, "user.zerofs.shape")) == t["shape"], path
    for f in i["files"]:
        assert os.stat(os.path.join(mnt, f["path"])).st_size == f["bytes"], f


def stats(mnt):
    def of(key):
        return sum(s[key] for s in json.loads(content(mnt, ".zerofs/stats.json"))["sources"])
    bytes_before, reads_before = of("bytes"), of("reads")
    fd = os.open(os.path.join(mnt, "optim/step/l1.bias.f32"), os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # else the page cache may answer
    os.pread(fd, 4, 0)
    os.close(fd)
    assert of("bytes") - bytes_before == 4 and of("reads") > reads_before, (bytes_before, of("bytes"))
    assert of("errors") == 0


def side_files(mnt, source):
    for d in (mnt, os.path.join(mnt, "hf")):
        for f in ("config.json", "generation_config.json"):
            assert content(d, f) == content(source, f), (d, f)


def hf_shards(mnt, source, limit):
    i = json.loads(content(mnt, "hf/model.safetensors.index.json"))
    with open(os.path.join(source, "expected.json")) as f:
        expected = json.load(f)["tensors"]
    assert set(i["weight_map"]) == set(expected), set(i["weight_map"]) ^ set(expected)
    shards = set(i["weight_map"].values())
    assert len(shards) > 1 and sorted(shards)[0] == f"model-00001-of-{len(shards):05}.safetensors", shards
    total = 0
    for shard in shards:
        _, tensors = read_safetensors(os.path.join(mnt, "hf", shard))
        assert set(tensors) == {k for k, v in i["weight_map"].items() if v == shard}
        size = sum(len(t[2]) for t in tensors.values())
        assert size <= int(limit) or len(tensors) == 1, (shard, size)
        total += size
        for name, t in tensors.items():
            assert hashlib.sha256(t[2]).hexdigest() == expected[name]["sha256"], name
    assert i["metadata"]["total_size"] == total, i["metadata"]


def names(mnt, *expected):
    found = [f for f, _ in raw_files(mnt).values()]
    assert sorted(found) == sorted(expected), found


def owner(mnt, uid, gid, file_mode, dir_mode):
    for path, mode in ((mnt, dir_mode), (mnt + "/npy", dir_mode), (mnt + "/l1.bias.f32", file_mode)):
        st = os.stat(path)
        assert (st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)) == (int(uid), int(gid), int(mode, 8)), (path, st)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
