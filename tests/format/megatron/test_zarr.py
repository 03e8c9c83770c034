#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Megatron's zarr backend: arrays in every spelling are what they hold, and each fault is refused with the file it is in, or,
degraded, costs exactly the bytes it must."""
import itertools
import json
import os
import shutil
import struct
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../../support")]
import mkzarr  # noqa: E402 pylint: disable=wrong-import-position
import torchfile as tf  # noqa: E402 pylint: disable=wrong-import-position
from golden import Case, main  # noqa: E402 pylint: disable=wrong-import-position

DEGRADED = ("-o", "degraded")
W = "embedding.word_embeddings.weight"
SHAPE, CHUNKS = (8, 6), (2, 3)


class Save(Case):
    """A save of one array W of 4 x 2 chunks, unless it is told otherwise, and another that is always sound."""

    def make(self, key=W, shape=SHAPE, chunks=CHUNKS, **how):
        mkzarr.common(self.dir, num_layers=2)
        mkzarr.array(self.dir, key, shape, chunks, **how)
        mkzarr.array(self.dir, "decoder.final_layernorm.weight", (5,), (5,))
        mkzarr.finish(self.dir)
        return self

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def edit(self, **changes):
        """Other words in .zarray, with the chunks as they are."""
        with open(self.path(W, ".zarray"), encoding="utf8") as f:
            z = {**json.load(f), **changes}
        self.file(W + "/.zarray", z)

    def partly(self, lost):
        """Of W exactly the elements in `lost` cannot be read; the other array is whole."""
        want = bytearray(mkzarr.flat(SHAPE))
        for i in lost:
            want[4 * i:4 * i + 4] = struct.pack("<f", float("nan"))
        self.cat(W + ".f32", bytes(want), "-o", "degraded,lost=nan")
        r = self.run("cat", W + ".f32", *DEGRADED)
        assert r.returncode == 5 and len(r.stdout) <= 4 * min(lost), f"{r.returncode}, {len(r.stdout)} bytes"
        assert r.stdout == want[:len(r.stdout)]
        self.cat("decoder.final_layernorm.weight.f32", mkzarr.flat((5,)), *DEGRADED)


def inside(*index, shape=SHAPE, chunks=CHUNKS):
    """The elements of a chunk."""
    rows = range(index[0] * chunks[0], min((index[0] + 1) * chunks[0], shape[0]))
    columns = range(index[1] * chunks[1], min((index[1] + 1) * chunks[1], shape[1]))
    return {r * shape[1] + c for r in rows for c in columns}


# ---- what is sound --------------------------------------------------------------------------------------

def every_type():
    for dtype, suffix in (("<f4", "f32"), (">f4", "f32"), ("<f2", "f16"), (">f8", "f64"), ("bfloat16", "bf16"), ("<V2", "bf16"),
                          ("|V2", "bf16"), (">V2", "bf16"), ("|i1", "i8"), ("|u1", "u8"), ("|b1", "bool"), ("<i8", "i64"),
                          (">i4", "i32"), ("<i2", "i16")):
        with Save() as s:
            s.make(dtype=dtype).cat(f"{W}.{suffix}", mkzarr.flat(SHAPE, dtype))


def every_layout():
    for order in "CF":
        for separator in (None, ".", "/"):
            for codec in (None, "zlib", "gzip"):
                for shape, chunks in ((SHAPE, CHUNKS), ((7, 5), (2, 3)), ((5,), (2,)), ((2, 3, 4), (1, 3, 2)), ((1, 1), (4, 4))):
                    with Save() as s:
                        s.make(shape=shape, chunks=chunks, order=order, separator=separator, compressor=codec)
                        s.cat(W + ".f32", mkzarr.flat(shape))


def no_dimensions_and_no_elements():
    with Save() as s:
        s.make(key="decoder.scale", shape=(), chunks=()).cat("decoder.scale.f32", mkzarr.flat(()))
    with Save() as s:
        s.make(shape=(0, 6), chunks=(1, 6)).cat(W + ".f32", b"")


def long_grids_are_sorted():
    """More than ten chunks: by number, not by name; and a separator that makes directories."""
    for separator in (".", "/"):
        with Save() as s:
            s.make(shape=(13, 24), chunks=(1, 2), separator=separator).cat(W + ".f32", mkzarr.flat((13, 24)))


def fill_values():
    """Chunks that are not there: zeros, one of them and a run of them that is no box; any other value is refused."""
    for fill, raw in ((0, struct.pack("<f", 0)), (0.0, bytes(4))):
        for gone in ({(1, 0)}, {(0, 1), (1, 0), (1, 1), (2, 0)}, {(i, j) for i in range(4) for j in range(2)}):
            with Save() as s:
                s.make(without=gone, fill_value=fill)
                want = bytearray(mkzarr.flat(SHAPE))
                for i in set().union(*(inside(*g) for g in gone)):
                    want[4 * i:4 * i + 4] = raw
                s.cat(W + ".f32", bytes(want))
                s.told("%s/%d.%d: the chunk is missing" % (W, *min(gone)))
    with Save() as s:
        s.make(shape=(7, 5), without={(3, 1)}, fill_value=0, order="F", compressor="zlib")
        want = bytearray(mkzarr.flat((7, 5)))
        for i in inside(3, 1, shape=(7, 5)):
            want[4 * i:4 * i + 4] = bytes(4)
        s.cat(W + ".f32", bytes(want))
    for fill in (1.5, -0.0, "-Infinity", "AAAAAA=="):
        with Save() as s:
            s.make(without={(1, 0)}, fill_value=fill)
            s.refused(W + "/1.0", "the chunk is missing", f"fill_value {json.dumps(fill)} is not supported, only 0 is")
            s.partly(inside(1, 0))
        with Save() as s:
            s.make(fill_value=fill).cat(W + ".f32", mkzarr.flat(SHAPE))


def layers_and_slices():
    with Save() as s:
        key = "decoder.layers.mlp.linear_fc2.weight"
        s.make(key=key, shape=(2, 4, 6), chunks=(1, 4, 3))
        want = mkzarr.flat((2, 4, 6))
        s.cat("stacked/" + key + ".f32", want)
        for i in range(2):
            s.cat(f"decoder.layers.{i}.mlp.linear_fc2.weight.f32", want[96 * i:96 * (i + 1)])


def lock_directories_are_passed_over():
    with Save() as s:
        s.make()
        s.file(W + ".sync/.zarray", b"")
        s.file(W + ".sync/0.0", b"")
        s.file("other_lock/.zarray", b"")
        s.file("other_lock/0.0", b"")
        s.told("2 tensors")


def both_spellings_of_objects():
    for names in (("shard_0.0_1", "shard_0.1_1"), ("shard_0.0_1.2", "shard_0.1_1.2")):
        with Save() as s:
            s.make()
            for i, name in enumerate(names):
                s.file(f"rng_state/{name}.pt", tf.archive([i]))
            for i in range(2):
                s.cat(f"extra/rng_state%2Fshard_0.{i}_1.2", tf.archive([i]))
    with Save() as s:
        s.make()
        s.file("rng_state/shard_0.1_1.pt", b"x")
        s.file("rng_state/shard_0.1_1.2.pt", b"x")
        s.refused("rng_state/shard_0.1_1.", "0.1 is also in another file")
    with Save() as s:
        s.make()
        s.file("rng_state/shard_0.1_2.3.pt", tf.archive([1]))
        s.file("rng_state/shard_1.2_2.3.pt", tf.archive([1]))
        s.told("rng_state: 4 of 6 objects are missing")
    for names in (("shard_0.0_1.2", "shard_0.1_1.2"), ("shard_0_1",)):
        with Save() as s:
            s.make()
            for i, name in enumerate(names):
                s.file(f"rng_state/{name}.pt", tf.archive([i]) if i + 1 < len(names) else b"")
            s.told(f"rng_state: 1 of {len(names)} objects are missing or empty")
    with Save() as s:  # the shape has lost its last number: 2 times at least 2
        s.make()
        s.file("rng_state/shard_0.1_2.pt", tf.archive([1]))
        s.file("rng_state/shard_1.0_2.pt", tf.archive([1]))
        s.told("rng_state: 2 of 4 objects are missing")


# ---- what is not ----------------------------------------------------------------------------------------

def missing_chunks():
    with Save() as s:
        s.make(without={(1, 1)})
        s.refused(W + "/1.1", "the chunk is missing", "no fill_value")
        s.partly(inside(1, 1))
    with Save() as s:
        gone = {(0, 1), (1, 0), (1, 1), (2, 0)}
        s.make(without=gone)
        s.refused(W + "/0.1", "the chunk is missing")
        s.partly(set().union(*(inside(*g) for g in gone)))


def wrong_lengths():
    """Too short: what is there is there; too long, or a link to nothing: nothing of it is believed."""
    with Save() as s:
        s.make()
        with open(s.path(W, "2.1"), "r+b") as f:
            f.truncate(9)
        s.refused(W + "/2.1", "the chunk has 9 bytes, expected 24")
        # Two whole elements; the third is cut in two, and so is lost.
        s.partly({i for i in inside(2, 1) if i not in (27, 28)})
    with Save() as s:
        s.make(dtype=">f4")
        with open(s.path(W, "2.1"), "r+b") as f:
            f.truncate(9)
        s.partly(inside(2, 1))
    for spoil in (lambda p: open(p, "ab").write(b"x"), lambda p: (os.remove(p), os.symlink("none", p)),
                  lambda p: (os.remove(p), os.mkdir(p))):
        with Save() as s:
            s.make()
            spoil(s.path(W, "0.0"))
            s.refused(W + "/0.0")
            s.partly(inside(0, 0))


def lies_about_the_shape():
    """The chunks are those of another grid."""
    for changes, parts in (({"shape": [10, 6]}, ("/4.0", "the chunk is missing")),
                           ({"shape": [6, 6]}, ("/3.0", "no such chunk")),
                           ({"chunks": [2, 6]}, ("/0.1", "no such chunk")),
                           ({"chunks": [2, 4]}, ("/0.0", "24 bytes, expected 32")),
                           ({"dtype": "<f8"}, ("/0.0", "24 bytes, expected 48")),
                           ({"dtype": "bfloat16"}, ("/0.0", "24 bytes, expected 12")),
                           ({"shape": [8], "chunks": [2]}, ("/0.0", "no such chunk")),
                           ({"shape": [8], "chunks": [2], "fill_value": 0}, ("/0.0", "no such chunk")),
                           ({"shape": [8, 6, 1], "chunks": [2, 3, 1], "fill_value": 0}, ("/0.0", "no such chunk")),
                           ({"shape": [], "chunks": [], "fill_value": 0}, ("/0.0", "no such chunk")),
                           ({"dimension_separator": "/"}, ("/0.0", "no such chunk")),
                           ({"dimension_separator": "/", "fill_value": 0}, ("/0.0", "no such chunk")),
                           ({"compressor": {"id": "zlib"}}, ("/0.0", "not a zlib stream")),
                           ({"compressor": {"id": "bz2"}}, ("/.zarray", "\"bz2\"")),
                           ({"filters": [{"id": "delta"}]}, ("/.zarray", "\"delta\"")),
                           ({"shape": [1 << 62, 6]}, ("/.zarray", "2^63")),
                           ({"shape": [1 << 40, 6]}, ("/.zarray", "grid_cells")),
                           ({"shape": [8, -6]}, ("/.zarray", "shape is not a list")),
                           ({"chunks": [0, 3]}, ("/.zarray", "in dimension 0 is 0")),
                           ({"zarr_format": 3}, ("/.zarray", "zarr_format 3"))):
        with Save() as s:
            s.make()
            s.edit(**changes)
            s.refused(*(W + parts[0], *parts[1:]))


def a_separator_that_is_not_the_chunks():
    """Directories of chunks where .zarray says that they are files: they would all be the fill_value."""
    for fill in (None, 0):
        with Save() as s:
            s.make(separator="/", fill_value=fill)
            s.edit(dimension_separator=".")
            s.refused(W + "/0", "no such chunk")
    with Save() as s:
        s.make(fill_value=0)
        s.file(W + "/0.0.tmp", b"of whoever wrote it")
        s.file(W + "/1.__lock__", b"")
        s.cat(W + ".f32", mkzarr.flat(SHAPE))


def a_zarray_that_is_no_json():
    for text, part in ((b"[" * 2000, "json_depth"), (b"{\"shape\": [1", "JSON"), (b"\0" * 9, "JSON"), (b"", "the file is empty"),
                       (b"[]", "not a JSON object"), (b'{"zarr_format": 2, "zarr_format": 2}', "duplicate")):
        with Save() as s:
            s.make()
            s.file(W + "/.zarray", text)
            s.refused(W + "/.zarray", part)
            if part not in ("json_depth",):
                s.cat("decoder.final_layernorm.weight.f32", mkzarr.flat((5,)), *DEGRADED)


def chunks_without_a_zarray():
    for separator in (".", "/"):
        with Save() as s:
            s.make(separator=separator)
            os.remove(s.path(W, ".zarray"))
            s.refused(W + "/.zarray", "is missing", "chunks next to it")
            s.cat("decoder.final_layernorm.weight.f32", mkzarr.flat((5,)), *DEGRADED)
            s.told("is missing, but there are chunks next to it", opts=DEGRADED)
            os.mkdir(s.path(W, ".zarray"))
            s.refused(W + "/.zarray", "is not a regular file")


    with Save() as s:  # names of no chunk
        s.make()
        for name in ("1.__lock__", "2024.txt", "0.0.tmp"):
            s.file("notes/" + name, b"of whoever wrote it")
        s.cat(W + ".f32", mkzarr.flat(SHAPE))


def a_common_file_that_is_missing():
    with Save() as s:
        s.make()
        os.remove(s.path("common.pt"))
        s.refused("common.pt", "args, iteration and the optimizer's settings", "is missing")
        s.told("common.pt: args, iteration and", opts=DEGRADED)


def lies_of_compressed_chunks():
    """The head of the first chunk is compared when it is opened, that of the others when they are read."""
    with Save() as s:
        s.make(compressor="gzip")
        s.edit(chunks=[2, 6], shape=[8, 12])
        r = s.run("cat", W + ".f32")
        assert r.returncode == 4 and b"too few bytes" in r.stderr, r.stderr
    with Save() as s:
        s.make(compressor="zlib")
        s.file(W + "/0.0", b"no stream at all")
        s.refused(W + "/0.0", "not a zlib stream")
        s.partly(inside(0, 0))
    with Save() as s:
        s.make(compressor="zlib")
        s.file(W + "/1.1", b"x\x9c damaged")
        s.told("2 tensors")
        r = s.run("cat", W + ".f32")
        assert r.returncode == 4 and b"1.1" in r.stderr and b"damaged" in r.stderr, r.stderr
        s.file(W + "/1.1", b"")
        s.refused(W + "/1.1", "the chunk is empty")
        s.partly(inside(1, 1))


def bombs_and_heads():
    """A size that the codec's head says, refused before memory is taken for it."""
    lz4 = struct.pack("<I", 1 << 30) + b"\0" * 20
    blosc = bytes((2, 1, 0x21, 4)) + struct.pack("<III", 1 << 30, 1 << 20, 40) + b"\0" * 24
    for codec, raw, part in (("lz4", lz4, "should hold 1073741824 bytes by its header, expected 24"), ("blosc", blosc, "1073741824 bytes once")):
        with Save() as s:
            s.make()
            s.edit(compressor={"id": codec})
            s.file(W + "/0.0", raw)
            if "built without" not in s.run("info", None).stderr.decode():
                s.refused(W + "/0.0", part)
    with Save() as s:
        s.make(compressor="zlib")
        s.edit(shape=[1 << 16, 1 << 16], chunks=[1 << 16, 1 << 16])
        s.refused(W, "no such chunk")
        for index in list(mkzarr.grid(SHAPE, CHUNKS))[1:]:
            os.remove(s.path(W, ".".join(map(str, index))))
        s.refused(W + "/0.0", "chunk_bytes")
        s.refused(W + "/0.0", "cannot inflate", opts=("--limit", "chunk_bytes=64G"))


def a_library_that_cannot_be_loaded():
    """c-blosc is loaded by the first array that needs it; where it is no library, one sentence says so, and all else opens."""
    with Save() as s, tempfile.TemporaryDirectory() as no:
        s.make()
        with open(os.path.join(no, "libblosc.so.1"), "wb"):
            pass
        os.environ["LD_LIBRARY_PATH"] = no
        try:
            s.cat(W + ".f32", mkzarr.flat(SHAPE))
            s.edit(compressor={"id": "blosc"})
            s.refused(W + "/.zarray", "compressed with blosc")
            r = s.run("info", None)
            assert r.stderr.count(b"\n") == 1, r.stderr
            assert b"built without" in r.stderr or b"c-blosc cannot be loaded: " in r.stderr, r.stderr
        finally:
            del os.environ["LD_LIBRARY_PATH"]


def damage_beside_a_weight():
    """Masters and weights are compared when the save is opened; what cannot be read of either is no news to that."""
    master = "optimizer.state.fp32_param." + W
    for codec in (None, "zlib"):
        with Save() as s:
            s.make(compressor=codec)
            mkzarr.array(s.dir, master, SHAPE, CHUNKS, compressor=codec)
            s.cat("stored/" + W + ".f32", mkzarr.flat(SHAPE))
            s.cat(W + ".f32", mkzarr.flat(SHAPE))
            os.remove(s.path(master, "0.0"))
            s.refused(master + "/0.0", "the chunk is missing")
            s.partly(inside(0, 0))
            s.cat("stored/" + W + ".f32", mkzarr.flat(SHAPE), *DEGRADED)
    with Save() as s:
        s.make(compressor="zlib")
        mkzarr.array(s.dir, master, SHAPE, CHUNKS, compressor="zlib")
        with open(s.path(master, "3.1"), "r+b") as f:
            f.seek(5)
            f.write(b"\xff\xff\xff")
        s.cat("stored/" + W + ".f32", mkzarr.flat(SHAPE), *DEGRADED)
        r = s.run("cat", W + ".f32", *DEGRADED)
        assert r.returncode in (4, 5) and b"3.1" in r.stderr and len(r.stdout) <= 4 * min(inside(3, 1)), r.stderr
    with Save() as s:  # nothing says that it is this weight's
        s.make()
        mkzarr.array(s.dir, master, SHAPE, CHUNKS)
        for i, j in itertools.product(range(4), range(2)):
            os.remove(s.path(W, f"{i}.{j}"))
        assert s.run("cat", W + ".f32", *DEGRADED).returncode == 5
        s.cat("optim/param/" + W + ".f32", mkzarr.flat(SHAPE), *DEGRADED)
        s.told("cannot be compared with its weight", opts=DEGRADED)


def unfinished_and_mixed():
    with Save() as s:
        s.make()
        os.remove(s.path("metadata.json"))
        s.refused("metadata.json", "incomplete")
    with Save() as s:
        s.make()
        shutil.move(s.path(W), s.path("elsewhere"))
        os.symlink("/nowhere", s.path(W))
        s.cat("decoder.final_layernorm.weight.f32", mkzarr.flat((5,)))


if __name__ == "__main__":
    main([every_type, every_layout, no_dimensions_and_no_elements, long_grids_are_sorted, fill_values, layers_and_slices,
         lock_directories_are_passed_over, both_spellings_of_objects, missing_chunks, wrong_lengths, lies_about_the_shape,
         a_separator_that_is_not_the_chunks,
         a_zarray_that_is_no_json, chunks_without_a_zarray, a_common_file_that_is_missing, lies_of_compressed_chunks, bombs_and_heads, a_library_that_cannot_be_loaded,
         damage_beside_a_weight,
         unfinished_and_mixed])
