#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves whose metadata, items and files contradict each other: refused with both values, or lost to the byte."""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../../support")]
import mkdcp  # noqa: E402
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

    def lost(self, path, size):
        """Listed with this many bytes, none of which can be read."""
        rows = {w[-1]: w[0] for w in map(str.split, self.run("ls", None, "-l", *DEGRADED).stdout.decode().splitlines())}
        assert rows.get(path) == str(size), f"{path} is not listed with {size} bytes: {rows}"
        r = self.run("cat", path, *DEGRADED)
        assert r.returncode == 5 and not r.stdout, f"{path}: exit status {r.returncode}, {len(r.stdout)} bytes"


def size_of_zero():
    for rows in (0, 3):
        with Save() as s:
            c = s.make()
            c.state["model.layers.0.weight"].size = c.w.size(rows, 6)
            s.write(c)
            s.refused("layers.0.weight", f"of dimension 0, which has {rows}")
            s.lost("layers.0.weight.f32", 120)
            s.cat("layers.1.weight.f32", s.data("model.layers.1.weight"), *DEGRADED)


def chunk_of_zero():
    with Save() as s:
        c = s.make(ranks=1)
        t = c.state["model.layers.0.weight"]
        t.size = t.chunks[0].sizes = c.w.size(0, 6)
        s.write(c)
        s.refused("__0_0.distcp", "layers.0.weight", "holds data", "no elements")
        r = s.run("ls", None, *DEGRADED)
        assert b"layers.0.weight" not in r.stdout and b"layers.1.weight" in r.stdout, r.stdout
        s.told("no elements", opts=DEGRADED)


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
        s.lost("layers.0.weight.f32", 120)


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
        s.lost("layers.0.weight.f32", 168)
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


main(
    [
        path_of_another_key,
        paths_that_join,
        size_of_zero,
        chunk_of_zero,
        empty_tensor,
        chunk_of_other_dimensions,
        ranks_that_disagree,
    ]
)
