#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves whose metadata, items and files contradict each other: refused with both values, or lost to the byte."""
import argparse
import json
import math
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../../support")]
import mkdcp  # noqa: E402
import torchfile  # noqa: E402
from golden import Case, main  # noqa: E402

DEGRADED = ("-o", "degraded")


class Save(Case):
    """A save in the making: `make` it, spoil `c.state`, `c.storage`, `c.planner`, then `write`."""

    def make(self, at="", **options):
        args = dict(dir=os.path.join(self.dir, at), tensors=2, ranks=2, rows=5, cols=6, bytes=0, torch="2.14",
                    protocol=4, dtype="float32", sparse=False, hollow=False, plans=False, columns=False, bad="")
        os.makedirs(args["dir"], exist_ok=True)
        c = mkdcp.Checkpoint(argparse.Namespace(**{**args, **options}))
        for i in range(c.a.tensors):
            c.tensor(("model", f"layers.{i}.weight"), (c.a.rows, c.a.cols), c.a.dtype)
        for i in range(c.a.bytes):
            c.bytes_item(("train", f"step{i}"), {"step": i, "lr": 0.5})
        return c

    def write(self, c, name=".metadata"):
        for o in c.out:
            if not o.f.closed:
                o.close()
        with open(os.path.join(c.a.dir, name), "wb") as f:
            mkdcp.pickle.dump(c.metadata(), f, c.a.protocol)

    def data(self, name):
        return mkdcp.content(name, 5 * 6 * 4)

    def lost(self, name):
        """Of unknown shape: no file, but told."""
        listed = self.run("ls", None, "-R", *DEGRADED).stdout.decode().split()
        assert not any(f.startswith(name) for f in listed), f"{name} is listed: {listed}"
        told = json.loads(self.run("cat", "LOST.json", "-o", "degraded,lost=omit").stdout)["lost"]
        assert [t["name"] for t in told] == [name] and told[0]["file"] == ".metadata", told


def nothing_else():
    """Not one tensor can be shown."""
    with Save() as s:
        c = s.make(tensors=1)
        c.state["model.layers.0.weight"].size = c.w.size(0, 6)
        s.write(c)
        s.lost("layers.0.weight")


def size_of_zero():
    for rows in (0, 3):
        with Save() as s:
            c = s.make()
            c.state["model.layers.0.weight"].size = c.w.size(rows, 6)
            s.write(c)
            s.refused("layers.0.weight", f"of dimension 0, which has {rows}")
            s.lost("layers.0.weight")
            s.cat("layers.1.weight.f32", s.data("model.layers.1.weight"), *DEGRADED)


def chunk_of_zero():
    with Save() as s:
        c = s.make(ranks=1)
        t = c.state["model.layers.0.weight"]
        t.size = t.chunks[0].sizes = c.w.size(0, 6)
        s.write(c)
        s.refused("__0_0.distcp", "layers.0.weight", "holds data", "is empty")
        r = s.run("ls", None, "-R", *DEGRADED)
        assert b"layers.0.weight" not in r.stdout and b"layers.1.weight" in r.stdout, r.stdout
        s.told("is empty", opts=DEGRADED)


def empty_tensor():
    with Save() as s:
        c = s.make(ranks=1)
        c.tensor(("model", "none"), (0, 5))
        s.write(c)
        s.cat("none.f32", b"")
        s.cat("layers.0.weight.f32", s.data("model.layers.0.weight"))


def chunk_of_other_dimensions():
    with Save() as s:
        c = s.make()
        c.state["model.layers.0.weight"].size = c.w.size(30)
        s.write(c)
        s.refused("layers.0.weight", "are not 1 numbers")
        s.lost("layers.0.weight")


def ranks_that_disagree():
    with Save() as s:
        for rank, rows in ((0, 5), (1, 7)):
            c = s.make()
            c.state["model.layers.0.weight"].size = c.w.size(rows, 6)
            for name in c.state:  # each rank tells of its own chunk
                c.state[name].chunks = [c.state[name].chunks[rank]]
            c.storage = {k: v for k, v in c.storage.items() if v.relative_path == f"__{rank}_0.distcp"}
            s.write(c, f"__{rank}.metadata")
        s.refused("__1.metadata", '"model.layers.0.weight" is float32 [7, 6], but float32 [5, 6] in', "__0.metadata")
        s.lost("layers.0.weight")
        s.cat("layers.1.weight.f32", s.data("model.layers.1.weight"), *DEGRADED)


def path_of_another_key():
    with Save() as s:
        c = s.make()
        a, b = "model.layers.0.weight", "model.layers.1.weight"
        c.planner[a], c.planner[b] = c.planner[b], c.planner[a]
        s.write(c)
        s.refused(".metadata", f'the key "{a}"', f'"{b}"')
        s.told("planner_data says", opts=DEGRADED)
        s.cat(f"{a}.f32", s.data(a), *DEGRADED)
        s.cat(f"{b}.f32", s.data(b), *DEGRADED)


def paths_that_join():
    """Positions in lists, dots in names, one step for all of a key, and what is no path at all."""
    ways = [("model", "layers", 0, "weight"), ("model", "layers", "0", "weight"), ("model.layers.0.weight",),
            ["model", "layers.0", "weight"], None, (None, 3.5), {"a": "b"}]
    for way in ways:
        with Save() as s:
            c = s.make()
            flat = not isinstance(way, (tuple, list)) or way[0] != "model"
            c.planner["model.layers.0.weight"] = way
            if flat:
                c.planner["model.layers.1.weight"] = None
            s.write(c)
            name = "model.layers.0.weight" if flat else "layers.0.weight"
            s.cat(name + ".f32", s.data("model.layers.0.weight"))


def spoil(s, change):
    """A save with three bytes items, one of which `change` spoils."""
    c = s.make(bytes=3)
    item = next(v for k, v in c.storage.items() if k.fqn == "train.step1")
    for o in c.out:
        o.close()
    change(c, item)
    s.write(c)


def raw_items():
    """Bytes that are no torch.save file are the tensor where they are exactly as many as it needs."""
    name = "model.layers.0.weight"
    for size in (120, 119):
        with Save() as s:
            c = s.make(ranks=1)
            item = next(v for k, v in c.storage.items() if k.fqn == name)
            for o in c.out:
                o.close()
            with open(os.path.join(c.a.dir, item.relative_path), "r+b") as f:
                item.offset = f.seek(0, os.SEEK_END)
                item.length = f.write(s.data(name)[:size])
            s.write(c)
            if size == 120:
                s.cat("layers.0.weight.f32", s.data(name))
            else:
                assert s.run("cat", "layers.0.weight.f32").returncode != 0


def bytes_items_of_older_torch():
    def older(c, item):
        with open(os.path.join(c.a.dir, item.relative_path), "r+b") as f:
            item.offset, stream = f.seek(0, os.SEEK_END), torchfile.legacy({"step": 1})
            item.length = f.write(stream)

    with Save() as s:
        spoil(s, older)
        s.cat("extra/train.step1", torchfile.legacy({"step": 1}))


def bytes_items_that_are_not_whole():
    def half(_, item):
        item.length //= 2

    def second_half(_, item):
        item.offset, item.length = item.offset + item.length // 2, item.length - item.length // 2

    def all_but_one(_, item):
        item.length -= 1

    def two(c, item):
        after = next(v for k, v in c.storage.items() if k.fqn == "train.step2")
        item.length += after.length
        after.offset, after.length = item.offset + item.length, 0

    def noise(c, item):
        with open(os.path.join(c.a.dir, item.relative_path), "r+b") as f:
            f.seek(item.offset)
            f.write(b"\xa5" * item.length)

    def rest(c, item):  # the archive ends 40 bytes earlier
        path = os.path.join(c.a.dir, item.relative_path)
        with open(path, "r+b") as f:
            at = item.offset + item.length
            whole = f.read()
            f.seek(0)
            f.write(whole[:at] + b"\0" * 40 + whole[at:])
        item.length += 40
        for k, v in c.storage.items():
            if k.fqn == "train.step2":
                v.offset += 40

    for change in (half, second_half, all_but_one, two, noise, rest):
        with Save() as s:
            spoil(s, change)
            s.refused("__0_0.distcp", "train.step1", "not one whole torch.save file or pickle")
            for n in (0, 1):
                r = s.run("cat", f"extra/train.step{n}", *DEGRADED)
                assert (r.returncode, bool(r.stdout)) == ((0, True), (5, False))[n], f"{change.__name__}, step{n}: {r.stderr}"
            s.told("train.step1", opts=DEGRADED)


def bytes_items_that_are_pickles():
    def pickled(c, item):
        with open(os.path.join(c.a.dir, item.relative_path), "r+b") as f:
            f.seek(item.offset)
            data = mkdcp.pickle.dumps({"a": "b" * (item.length - 100)}, pickled.protocol)
            f.write(data)
        pickled.data, item.length = data, len(data)

    for pickled.protocol in (2, 3, 4, 5):
        with Save() as s:
            spoil(s, pickled)
            s.cat("extra/train.step1", pickled.data)

    def short(c, item):
        pickled(c, item)
        item.length += 1

    for pickled.protocol in (2, 3, 4, 5):
        with Save() as s:
            spoil(s, short)
            s.refused("train.step1", "a pickle ends 1 bytes earlier")


def many_bytes_items():
    """More than are looked at while mounting: the rest is looked at by its first read."""
    with Save() as s:
        c = s.make(bytes=1200)
        for n in (5, 1100):
            if n == 1100:
                next(v for k, v in c.storage.items() if k.fqn == f"train.step{n}").length -= 1
        s.write(c)
        assert s.run("info", None).returncode == 0
        for n, code in ((1099, 0), (1100, 4)):
            r = s.run("cat", f"extra/train.step{n}")
            assert (r.returncode, bool(r.stdout)) == (code, code == 0), f"step{n}: exit status {r.returncode}"
        assert "not one whole" in r.stderr.decode() and "__0_0.distcp" in r.stderr.decode(), r.stderr


def files_that_end_elsewhere():
    with Save() as s:
        c = s.make(bytes=1)
        s.write(c)
        r = s.run("info", None)
        assert r.returncode == 0 and b"note" not in r.stdout, r.stdout
        path = os.path.join(s.dir, "__1_0.distcp")
        with open(path, "ab") as f:
            f.write(b"more!")
        s.refused("__1_0.distcp", "its last item ends here", "but the file ends at byte")
        s.told("__1_0.distcp is not the file that .metadata describes", opts=DEGRADED)
        r = s.run("cat", "layers.0.weight.f32", *DEGRADED)
        assert r.returncode == 5 and s.data("model.layers.0.weight").startswith(r.stdout), r
    with Save() as s:  # the last item is one that no chunk needs: the empty shard of the last rank
        c = s.make(ranks=3)
        c.tensor(("model", "short"), (4, 6))
        s.write(c)
        path = os.path.join(s.dir, "__2_0.distcp")
        os.truncate(path, os.path.getsize(path) - 1)
        s.refused("__2_0.distcp", "ends")


def rank_local(s, value, path=("train", "step")):
    """Two ranks without collectives: each tells of its own chunks, and both have an item at `path`."""
    c = s.make()
    name, chunks, storage = ".".join(path), {k: t.chunks for k, t in c.state.items()}, c.storage
    places = [mkdcp.save_bytes(c.out[rank], c.a.torch, value(rank)) for rank in (0, 1)]
    for rank, (at, length) in enumerate(places):
        own = f"__{rank}_0.distcp"
        for k, both in chunks.items():
            c.state[k].chunks = [both[rank]]
        c.storage = {k: v for k, v in storage.items() if v.relative_path == own}
        c.storage[c.w.of(c.w.MetadataIndex, fqn=name, index=None)] = c.w.of(
            c.w.StorageInfo, relative_path=own, offset=at, length=length)
        c.state[name] = c.w.BytesStorageMetadata()
        c.planner[name] = path
        s.write(c, f"__{rank}.metadata")


def values_that_ranks_repeat():
    with Save() as s:
        rank_local(s, lambda r: 7)
        s.cat("layers.0.weight.f32", s.data("model.layers.0.weight"))
    with Save() as s:
        rank_local(s, lambda r: 7 + r)
        s.refused("__1_0.distcp", "train.step is 8, but 7 in", "__0_0.distcp")
    with Save() as s:
        rank_local(s, lambda r: [0.9, 0.99 - r / 10], ("optim", "param_groups", "0", "betas"))
        s.refused("betas[1] is 0.89, but 0.99 in")
    with Save() as s:
        rank_local(s, lambda r: 7 + r, ("dataloader", "step"))
        s.cat("layers.0.weight.f32", s.data("model.layers.0.weight"))


def settings_that_are_tensors():
    """One place, whatever is beside them."""
    for weight in (("model", "layers.0.weight"), ("layers.0.weight",)):
        with Save() as s:
            c = s.make(tensors=0)
            c.tensor(weight, (5, 6))
            c.tensor(("optim", "param_groups", "0", "lr"), ())
            s.write(c)
            s.cat("layers.0.weight.f32", s.data(".".join(weight)))
            s.cat("extra/optim.param_groups.0.lr.f32", mkdcp.content("optim.param_groups.0.lr", 4))


ROWS, COLS = 32, 60  # of a chunk: too large to be taken for a plain tensor by the length of its item
CHUNK = bytes(i % 251 for i in range(ROWS * COLS))


def composed_value(parts):
    """A tensor subclass of several tensors (torch/_utils.py, _rebuild_wrapper_subclass).  parts: name -> (shape, strides), or parts of
    another one."""
    kind = torchfile.named("made", "Int8Tensor")
    made = {}
    for name, part in parts.items():
        if isinstance(part, dict):
            made[name] = composed_value(part)
            continue
        shape, strides = part
        n = math.prod(shape)
        stored = torchfile.Storage(data=CHUNK[:n], n=n, cls="CharStorage")
        made[name] = torchfile.tensor(stored, 0, shape, strides)
    return torchfile.Call(
        "torch._tensor", "_rebuild_from_type_v2", torchfile.named("torch._utils", "_rebuild_wrapper_subclass"), kind,
        (kind, torchfile.named("torch", "float32"), (ROWS, COLS), (COLS, 1), 0, None, None, False), made)


def composed_item(parts):
    return torchfile.archive(composed_value(parts), extra=[("archive/byteorder", "little"), ("archive/version", "3\n")])


def composed(s, *chunks):
    """A save whose layers.0.weight has these items, one a rank."""
    c = s.make(rows=2 * ROWS, cols=COLS)
    for rank, (info, parts) in enumerate(zip(c.storage.values(), chunks)):
        item = composed_item(parts)
        info.offset, info.length = c.out[rank].at, len(item)
        c.out[rank].write(item)
    return c


WHOLE, NONE = ((ROWS, COLS), (COLS, 1)), ((ROWS, 0), (1, 1))


def composed_with_an_empty_part():
    with Save() as s:
        s.write(composed(s, *2 * [{"data": WHOLE, "none": NONE}]))
        s.cat("layers.0.weight.data.i8", 2 * CHUNK)
        s.cat("layers.0.weight.none.i8", b"")
        s.cat("layers.1.weight.f32", mkdcp.content("model.layers.1.weight", 2 * ROWS * COLS * 4))


def composed_of_a_transposed_part():
    with Save() as s:
        s.write(composed(s, {"data": WHOLE, "none": NONE}, {"data": ((ROWS, COLS), (1, ROWS)), "none": NONE}))
        turned = bytes(CHUNK[col * ROWS + row] for row in range(ROWS) for col in range(COLS))
        s.cat("layers.0.weight.data.i8", CHUNK + turned)


def composed_under_a_name_that_is_taken():
    """Other tensors keep their names; all parts, not only that one, are found under the full key."""
    with Save() as s:
        c = composed(s, *2 * [{"none": NONE, "data": WHOLE}])
        c.tensor(("model", "layers.0.weight.data"), (2, 3))
        s.write(c)
        s.cat("layers.0.weight.data.f32", mkdcp.content("model.layers.0.weight.data", 24))
        s.cat("extra/model.layers.0.weight.data.i8", 2 * CHUNK)
        s.cat("extra/model.layers.0.weight.none.i8", b"")
        listed = s.run("ls", None, "-R").stdout.split()
        assert b"layers.0.weight.none.i8" not in listed, listed


def composed_of_parts_that_differ():
    """All parts of a tensor or none."""
    for other in ({"data": WHOLE, "some": NONE}, {"data": WHOLE}, {"data": WHOLE, "none": ((ROWS, 1), (1, 1))}):
        with Save() as s:
            s.write(composed(s, {"data": WHOLE, "none": NONE}, other))
            s.refused("layers.0.weight")
            r = s.run("ls", None, "-R", *DEGRADED)
            assert b"layers.0.weight" not in r.stdout and b"layers.1.weight" in r.stdout, r.stdout
            s.cat("layers.1.weight.f32", mkdcp.content("model.layers.1.weight", 2 * ROWS * COLS * 4), *DEGRADED)


def quantized(scale, zero, axis=None):
    """torch's own quantized tensor (torch/_utils.py, _rebuild_qtensor): scale and zero point are numbers of Python's, or tensors and
    an axis."""
    t = torchfile.named
    params = (t("torch", "per_tensor_affine"), scale, zero) if axis is None else \
        (t("torch", "per_channel_affine"), torchfile.Tensor(*scale), torchfile.Tensor(*zero), axis)
    stored = torchfile.storage("0", "QInt8Storage", ROWS * COLS)
    return torchfile.archive(torchfile.Call("torch._utils", "_rebuild_qtensor", stored, 0, (ROWS, COLS), (COLS, 1), params, False, {}),
                             extra=[("archive/data/0", CHUNK), ("archive/byteorder", "little"), ("archive/version", "3\n")])


def composed_of_numbers():
    """Equal in all chunks, or the tensor is none."""
    def made(s, *items):
        c = s.make(rows=2 * ROWS, cols=COLS)
        for rank, (info, item) in enumerate(zip(c.storage.values(), items)):
            info.offset, info.length = c.out[rank].at, len(item)
            c.out[rank].write(item)
        props = next(iter(c.state.values())).properties
        props.state = (c.w.torch_dtype("qint8"),) + props.state[1:]
        s.write(c)

    with Save() as s:
        made(s, *2 * [quantized(0.5, 3)])
        s.cat("layers.0.weight.qi8", 2 * CHUNK)
        s.cat("layers.0.weight.scale.f64", struct.pack("<d", 0.5))
        s.cat("layers.0.weight.zero_point.i64", struct.pack("<q", 3))
    for other in (quantized(0.25, 3), quantized(0.5, 4), quantized(1, 3)):
        with Save() as s:
            made(s, quantized(0.5, 3), other)
            s.refused("layers.0.weight", "differs from the one in __0_0.distcp")


def composed_of_composed():
    with Save() as s:
        s.write(composed(s, *2 * [{"inner": {"data": WHOLE}, "none": NONE}]))
        s.cat("layers.0.weight.inner.data.i8", 2 * CHUNK)
        s.cat("layers.0.weight.none.i8", b"")


def composed_of_which_a_chunk_is_lost():
    """The rows of a lost chunk have parts of which nothing is known."""
    with Save() as s:
        c = composed(s, *2 * [{"data": WHOLE, "none": NONE}])
        next(v for k, v in c.storage.items() if k.fqn == "model.layers.0.weight" and v.relative_path == "__1_0.distcp").relative_path = "gone.distcp"
        s.write(c)
        os.truncate(os.path.join(s.dir, "__1_0.distcp"), max(v.offset + v.length for v in c.storage.values() if v.relative_path == "__1_0.distcp"))
        s.refused("gone.distcp")
        s.told('a chunk of "model.layers.0.weight", which consists of several tensors, is missing', opts=DEGRADED)
        s.cat("layers.1.weight.f32", mkdcp.content("model.layers.1.weight", 2 * ROWS * COLS * 4), *DEGRADED)


def more_than_limits_allow():
    for limit, part in (("tensors=1", "more than 1 tensors (limit tensors)"), ("pieces=3", "more than 3 chunks (limit pieces)"),
                        ("tensor_dims=1", "2 dimensions (limit tensor_dims)")):
        with Save() as s:
            s.write(s.make())
            s.refused(".metadata", part, opts=("-o", "limit=" + limit))


def a_key_of_two_kinds():
    """A tensor for one rank, bytes for the other."""
    for bytes_of, first, second in ((1, "float32 [5, 6]", "bytes"), (0, "bytes", "float32 [5, 6]")):
        with Save() as s:
            for rank in (0, 1):
                c, name = s.make(), "model.layers.0.weight"
                c.storage = {k: v for k, v in c.storage.items() if v.relative_path == f"__{rank}_0.distcp"}
                for t in c.state.values():
                    t.chunks = [t.chunks[rank]]
                if rank == bytes_of:
                    c.state[name] = c.w.BytesStorageMetadata()
                s.write(c, f"__{rank}.metadata")
            s.refused("__1.metadata", f'"{name}" is {second}, but {first} in', "__0.metadata")


def chunks_at_one_place():
    with Save() as s:
        c = s.make()
        chunks = c.state["model.layers.0.weight"].chunks
        chunks.append(c.w.of(type(chunks[0]), offsets=chunks[0].offsets, sizes=c.w.size(1, 6)))
        s.write(c)
        s.refused(".metadata", '"model.layers.0.weight": two chunks start at the same place')


def two_items_at_one_place():
    """Degraded: neither is that of the chunk, though a second chunk starts there too, right behind the first."""
    with Save() as s:
        c, name = s.make(), "model.layers.0.weight"
        chunks, items = c.state[name].chunks, list(c.storage.items())
        chunks.insert(1, c.w.of(type(chunks[0]), offsets=chunks[0].offsets, sizes=c.w.size(1, 6)))
        at, length = c.item(0, "float32", (1, 6), bytes(24))
        c.storage = {}
        for index, info in items:
            c.storage[index] = info
            if index.fqn == name and info.relative_path == "__0_0.distcp":
                again = c.w.of(type(index), fqn=name, index=1, offset=index.offset)
                c.storage[again] = c.w.of(type(info), relative_path=info.relative_path, offset=at, length=length)
        s.write(c)
        s.refused(".metadata", "two chunks start at the same place")
        lost = json.loads(s.run("cat", "LOST.json", "-o", "degraded,lost=omit").stdout)["lost"]
        assert [(b["first"], b["end"]) for t in lost for b in t["lost_bytes"]] in ([(0, 72)], [(0, 24), (24, 72)]), lost


def items_of_other_tensors():
    """What the item holds, and what .metadata promised."""
    for shape, dtype, part in (((4, 6), "float32", "the item holds 72 bytes of data, but .metadata says 48"),
                               ((5, 6), "bfloat16", "the item holds float32, but .metadata says bfloat16")):
        with Save() as s:
            c = s.make()
            c.tensor(("model", "other"), shape, dtype)
            mine, other = (next(v for k, v in c.storage.items() if k.fqn == name) for name in ("model.layers.0.weight", "model.other"))
            mine.offset, mine.length, other.offset, other.length = other.offset, other.length, mine.offset, mine.length
            s.write(c)
            for name in ("layers.0.weight.f32", "other" + (".f32" if dtype == "float32" else ".bf16")):
                r = s.run("cat", name)
                assert r.returncode == 4 and b"__0_0.distcp" in r.stderr and b"the item holds" in r.stderr, r
            assert part in r.stderr.decode(), r


def a_path_that_is_too_long():
    with Save() as s:
        c = s.make()
        next(iter(c.storage.values())).relative_path = "/".join(["x" * 200] * 25)
        s.write(c)
        s.refused(".metadata", 'relative_path "' + "x" * 120 + '" is too long')


def transforms_of_other_versions():
    """Only the one that is known is undone: the next version, and what begins alike, may hold anything."""
    for told in ("stream.zstd/2", "stream.zstd/10", "stream.zstd_dict/1", "stream.zst"):
        with Save() as s:
            c = s.make(bytes=1)
            for info in c.storage.values():
                info.transform_descriptors = [told]
            s.write(c)
            r = s.run("cat", "layers.0.weight.f32")
            assert r.returncode != 0 and not r.stdout and b"transformed by an extension other than zstd" in r.stderr, (told, r)


def copies_beyond_the_limit():
    """Memory that a limit refuses is not memory that the machine lacks."""
    with Save() as s:
        c = s.make(ranks=1)
        for i in range(3000):
            key = c.w.of(c.w.MetadataIndex, fqn=f"unknown.{i}", index=0, offset=c.w.size(0, 0))
            c.storage[key] = c.w.of(c.w.StorageInfo, relative_path=f"{'x' * 200}{i}.distcp", offset=0, length=0)
        s.write(c)
        codes = set()
        for kb in range(200, 3000, 100):
            r = s.run("info", None, "-o", f"limit=pickle_memory={kb}k")
            codes.add(r.returncode)
            assert b"out of memory" not in r.stderr, (kb, r.stderr)
        assert 0 in codes and len(codes) == 2, codes


main(
    [
        path_of_another_key,
        paths_that_join,
        nothing_else,
        size_of_zero,
        chunk_of_zero,
        empty_tensor,
        chunk_of_other_dimensions,
        ranks_that_disagree,
        raw_items,
        bytes_items_of_older_torch,
        bytes_items_that_are_not_whole,
        bytes_items_that_are_pickles,
        many_bytes_items,
        files_that_end_elsewhere,
        values_that_ranks_repeat,
        settings_that_are_tensors,
        composed_with_an_empty_part,
        composed_of_a_transposed_part,
        composed_of_numbers,
        composed_under_a_name_that_is_taken,
        composed_of_parts_that_differ,
        composed_of_composed,
        composed_of_which_a_chunk_is_lost,
        more_than_limits_allow,
        a_key_of_two_kinds,
        chunks_at_one_place,
        two_items_at_one_place,
        items_of_other_tensors,
        a_path_that_is_too_long,
        transforms_of_other_versions,
        copies_beyond_the_limit,
    ]
)
