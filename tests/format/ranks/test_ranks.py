#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves with one torch.save file a rank: plain tensors, and DTensors on meshes that no fixture has."""
import io
import itertools
import math
import os
import re
import struct
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from made import A, B, Storage, Tensor, Tree, check, done, expect, refused  # noqa: E402
from dtensors import DTensor, inner, made, outer, partial, replicate, shard, strided  # noqa: E402
from torchfile import named, strides  # noqa: E402

# ---- plain tensors -------------------------------------------------------------------------------------

expect("copies in every rank", {"rank0.pt": {"model": {"w": A}}, "rank1.pt": {"model": {"w": Tensor(1, 2, 3)}}},
       {":w": A})
tree = expect("different plain tensors", {"rank0.pt": {"model": {"w": A}}, "rank1.pt": {"model": {"w": B}}},
              {"extra:model.w.rank0": A, "extra:model.w.rank1": B})
check("which is told", any("differs between ranks" in n for n in tree.notes), tree.notes)
expect("a tensor of one rank only", {"rank0.pt": {"model": {"w": A}}, "rank1.pt": {"model": {"w": A, "v": B}}},
       {":w": A, ":v": B})
refused("a gap in the ranks", {"rank0.pt": {"w": A}, "rank2.pt": {"w": A}}, "only 2 of 3")

refused("one rank twice in place of another", {"rank0.pt": {"w": A}, "rank00.pt": {"w": A}, "rank2.pt": {"w": A}}, "rank0.pt and rank00.pt belong to the same rank")
refused("one rank twice", {"rank0.pt": {"w": A}, "rank1.pt": {"w": A}, "rank_1.pt": {"w": A}}, "belong to the same rank")
groups = {f"optim{k:02d}_rank_{r}.pt": {f"s{k}": A} for k in range(20) for r in (0, 1)}
weights = {f"zmodel_rank_{r}.pt": {"w": B} for r in (0, 1)}
expect("weights behind twenty optimizers", {**groups, **weights},
       {":w": B, **{f":optim{k:02d}.s{k}": A for k in range(20)}})
optim18 = groups.pop("optim18_rank_1.pt")
tree = Tree({**groups, **weights})
check("the last rank of the nineteenth may be missing", tree.code == 0 and
      [n.split(";")[0] for n in tree.notes] == ["only 1 of 2 ranks have a file like optim18_rank_0.pt"], (tree.err, tree.notes))
refused("the first may not", {**{k: v for k, v in groups.items() if k != "optim18_rank_0.pt"}, **weights, "optim18_rank_1.pt": optim18}, "only 1 of 2")
tree = Tree({**weights, "optim_rank_0.pt": {"s": A}, "optim_rank_1.pt": {"s": A}, "optim_rank_2.pt": {"s": A}})
check("so may one of the weights", tree.code == 0 and [n.split(";")[0] for n in tree.notes] == ["only 2 of 3 ranks have a file like zmodel_rank_0.pt"],
      (tree.err, tree.notes))
for n, m in ((2, 3), (3, 2)):
    refused(f"weights of {n}, an optimizer of {m}", {**{f"model_world_size_{n}_rank_{r}.pt": {"w": A} for r in range(n)},
                                                   **{f"optim_world_size_{m}_rank_{r}.pt": {"s": A} for r in range(m)}}, "two saves are mixed")
expect("the last \"rank\" with a number counts", {f"frank_rank_{r}.x.pt": {"w": A} for r in (0, 1)}, {":w": A})
refused("and another behind it does not", {"m_rank_0.ranks.pt": {"w": A}, "m_rank_2.ranks.pt": {"w": A}}, "only 2 of 3")

# ---- ShardedTensors ------------------------------------------------------------------------------------


def sharded(rank, world):
    """The file of a rank of two, and what it says of their number."""
    with zipfile.ZipFile(os.path.join(os.environ["ZF_DATA"], f"dcp/torch1.13/rank{rank}.pt")) as z:
        member = {n: z.read(n) for n in z.namelist()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for n, data in member.items():
            if n.endswith("/data.pkl"):
                data, times = re.subn(rb"(global_world_size[qr][^K]{1,4}K)\x02", lambda m: m[1] + bytes([world]), data)
                assert times, "there is no global_world_size"
            z.writestr(n, data)
    return out.getvalue()


tree = Tree({f"rank{r}.pt": sharded(r, 2) for r in (0, 1)})
check("two of two ranks", tree.code == 0, tree.err)
refused("one rank of two, and one of three", {"rank0.pt": sharded(0, 2), "rank1.pt": sharded(1, 3)},
        "saved by 3 ranks, but rank0.pt was saved by 2: two saves are mixed")

# ---- DTensors ------------------------------------------------------------------------------------------

W = Tensor(*range(40), shape=(10, 4))


def rows(*indices):
    return Tensor(*[4 * i + k for i in indices for k in range(4)], shape=(len(indices), 4))


def rank_files(mesh, placements, pieces):
    """One file a rank: pieces in C order of the mesh's coordinates."""
    files = {}
    for r, piece in enumerate(pieces):
        coord, rest = [], r
        for s in reversed(mesh):
            coord.insert(0, rest % s)
            rest //= s
        files[f"model_world_size_{len(pieces)}_rank_{r}.pt"] = {
            "w": DTensor(piece, (10, 4), mesh, coord, placements)}
    return files


fsdp = rank_files((4,), [shard(0)], [rows(0, 1, 2), rows(3, 4, 5), rows(6, 7, 8), rows(9)])
expect("FSDP2 on four ranks", fsdp, {":w": W})
expect("an empty last shard", rank_files((6,), [shard(0)], [rows(2 * i, 2 * i + 1) for i in range(5)] + [rows()]),
       {":w": W})
both = rank_files((2, 2), [strided(0, 2), shard(0)], [rows(0, 1, 2), rows(5, 6, 7), rows(3, 4), rows(8, 9)])
expect("FSDP2 over tensor parallel", both, {":w": W})
expect("groups of rows, half of each", rank_files((2,), [strided(0, 2)], [rows(0, 1, 2, 5, 6, 7), rows(3, 4, 8, 9)]), {":w": W})
expect("three groups, the last shorter",
       rank_files((2,), [strided(0, 3)], [rows(0, 1, 4, 5, 8), rows(2, 3, 6, 7, 9)]), {":w": W})
hsdp = rank_files((2, 2), [replicate, shard(0)], 2 * [rows(0, 1, 2, 3, 4), rows(5, 6, 7, 8, 9)])
expect("replicas of shards", hsdp, {":w": W})
other = rank_files((2, 2), [replicate, shard(0)], [rows(0, 1, 2, 3, 4), rows(5, 6, 7, 8, 9), rows(0, 1, 2, 3, 4), rows(5, 6, 7, 8, 0)])
refused("a replica of another save", other, "but differs from it")
other = rank_files((2, 2), [shard(0), replicate], [rows(0, 1, 2, 3, 4), rows(0, 1, 2, 4, 3), rows(5, 6, 7, 8, 9), rows(5, 6, 7, 8, 9)])
refused("a replica of another save beside the first", other, "but differs from it")
columns = rank_files((2,), [shard(1)],
                     [Tensor(*[4 * i + k + d for i in range(10) for k in (0, 1)], shape=(10, 2)) for d in (0, 2)])
expect("shards of columns", columns, {":w": W})
wide = [Tensor(*[2048 * i + k + d for i in range(3) for k in range(1024)], shape=(3, 1024)) for d in (0, 1024)]
expect("of columns of some KiB", {f"model_world_size_2_rank_{r}.pt": {"w": DTensor(wide[r], (3, 2048), (2,), [r], [shard(1)])}
                                  for r in (0, 1)}, {":w": Tensor(*range(3 * 2048), shape=(3, 2048))})


def chunk(indices, size, coord):
    """What torch.chunk gives the rank at coord: as long as the first, the last shorter or none."""
    each = -(-len(indices) // size)
    return indices[each * coord:each * (coord + 1)]


def box(mesh, placements, r):
    """The rows and columns of rank r, counted along the mesh's axes, the last the fastest."""
    coord = []
    for s in reversed(mesh):
        coord.insert(0, r % s)
        r //= s
    cut = [list(range(10)), list(range(4))]
    for s, c, p in zip(mesh, coord, placements):
        if p != "copy":
            cut[p] = chunk(cut[p], s, c)
    return Tensor(*[4 * i + k for i in cut[0] for k in cut[1]], shape=(len(cut[0]), len(cut[1])))


for mesh in ((2, 3), (3, 2), (2, 2, 2), (2, 1, 3)):
    for ways in itertools.product(("copy", 0, 1), repeat=len(mesh)):
        pieces = [box(mesh, ways, r) for r in range(math.prod(mesh))]
        expect(f"mesh {mesh}, axes cut {ways}",
               rank_files(mesh, [replicate if w == "copy" else shard(w) for w in ways], pieces), {":w": W})
refused("summands alone", rank_files((2,), [partial], [W, W]), "summand")
summands = rank_files((2,), [partial], [W, W])
for f in summands.values():
    f["whole"] = A
tree = expect("summands are no pieces", summands, {":whole": A})
check("which is told", any("summand" in n for n in tree.notes), tree.notes)
refused("a piece of another size", rank_files((2,), [shard(0)], [rows(0, 1, 2), rows(5, 6, 7, 8, 9)]),
        "3 elements along dimension 0")
lie = rank_files((2,), [shard(0)], [rows(0, 1, 2, 3, 4), rows(5, 6, 7, 8, 9)])
lie["model_world_size_2_rank_1.pt"]["w"].coord = [0]
refused("two ranks in one place", lie, "but differs from it")
lie["model_world_size_2_rank_1.pt"]["w"].shape = (12, 4)
lie["model_world_size_2_rank_1.pt"]["w"].coord = [1]
lie["model_world_size_2_rank_1.pt"]["w"].local = rows(0, 1, 2, 3, 4, 5)
refused("ranks that disagree about the shape", lie, "it is float32 [12, 4], but float32 [10, 4] in \"model_world_size_2_rank_0.pt\"")

# ---- ShardedTensors that were made -----------------------------------------------------------------------

api, meta_of = "torch.distributed._shard.sharded_tensor", "torch.distributed._shard.metadata"
sharded_class = named(api + ".api", "ShardedTensor")
row = [(0, 5), (5, 10)]


class Sharded:
    """Rows of `of` ranks' shards, of which `own` are here."""

    def __init__(self, own, of=None, shape=(10, 4), world=2, tensor=None):
        self.own, self.of, self.shape, self.world, self.tensor = own, row if of is None else of, shape, world, tensor

    def metadata(self, lo, hi):
        return made(named(meta_of, "ShardMetadata"), shard_offsets=[lo, 0], shard_sizes=[hi - lo, self.shape[1]], placement="rank:0/cpu")

    def __reduce__(self):
        f32 = sys.modules["torch"].float32
        shards = [made(named(api + ".shard", "Shard"), tensor=self.tensor or rows(*range(lo, hi)), metadata=self.metadata(lo, hi)) for lo, hi in self.own]
        meta = made(named(api + ".metadata", "ShardedTensorMetadata"), size=self.shape, shards_metadata=[self.metadata(lo, hi) for lo, hi in self.of])
        group = made(named(api + ".api", "ProcessGroupState"), global_rank=0, global_world_size=self.world, local_rank=0, local_world_size=self.world)
        return outer, (inner, sharded_class, (sharded_class, f32, self.shape, strides(self.shape), 0, None, None, False), (shards, meta, group, None, False))


def shards_of(**second):
    return {"rank0.pt": {"w": Sharded(row[:1])}, "rank1.pt": {"w": Sharded(**{"own": row[1:], **second})}}


expect("two shards", shards_of(), {":w": W})
SAVES = "two saves are mixed"
for what, second, why in (
        ("another list of shards", {"of": [(0, 5), (5, 8), (8, 10)]}, f'it has 3 shards, but 2 in "rank0.pt": {SAVES}'),
        ("a shard in another place", {"of": [(0, 4), (5, 10)]}, f'shard 0 spans 0 … 4 of dimension 0 here, but 0 … 5 in "rank0.pt": {SAVES}'),
        ("a tensor of another shape", {"shape": (10, 5), "tensor": Tensor(*range(25), shape=(5, 5))},
         f'it is float32 [10, 5], but float32 [10, 4] in "rank0.pt": {SAVES}'),
        ("a shard that is shorter than is said", {"tensor": rows(5, 6)}, "shard 0 does not have the shape in its metadata"),
        ("a shard of one dimension", {"tensor": Tensor(*range(20))}, "the rank's part is float32 of 1 dimensions, but the whole tensor is float32 of 2")):
    files = shards_of(**second)
    files["rank1.pt"]["z"] = A  # read while the reason is kept
    tree = Tree(files)
    check(what, tree.code == 1 and tree.err.endswith(f"rank1.pt!w!: {why}"), tree.err)
for what, piece in (("a DTensor", DTensor(rows(0), (1, 4), (1,), [0], [replicate])), ("a shard", Sharded(row[1:]))):
    files = shards_of(tensor=piece)
    for f in files.values():
        f["whole"] = A
    tree = expect(f"a shard that is {what}", {"rank0.pt": {"whole": A}, "rank1.pt": files["rank1.pt"]}, {":whole": A})
    check(f"a shard that is {what}: the note", "rank1.pt: \"w\" is left out: the rank's part is not a plain tensor" in tree.notes, tree.notes)
tree = Tree({"rank0.pt": {"w": Sharded(row[:1], world=3)}, "rank1.pt": {"w": Sharded(row[1:], world=3)}})
check("ranks of three", tree.code == 1 and tree.err.endswith("rank0.pt: saved by 3 ranks, but there are files of 2: some are missing"), tree.err)
tree = Tree({"rank0.pt": {"w": Sharded(row[:1], world=3)}, "rank1.pt": {"w": Sharded(row[1:], world=3)}}, degraded=True)
check("the same, degraded", tree.has(":w", W) and "rank0.pt was saved by 3 ranks, but there are files of 2" in tree.notes, (tree.err, tree.notes))
lie = rank_files((2,), [shard(0)], [rows(0, 1, 2, 3, 4), Tensor(*range(20))])
tree = Tree(lie)
check("a piece of one dimension", tree.code == 1 and tree.err.endswith(
    "model_world_size_2_rank_1.pt!w!: the rank's part is float32 of 1 dimensions, but the whole tensor is float32 of 2"), tree.err)

# ---- what every rank repeats ----------------------------------------------------------------------------

RANK = "rank{}.pt".format


def two(make):
    """rank0.pt and rank1.pt with what `make` says for 0 and 1."""
    return {RANK(r): make(r) for r in (0, 1)}


def moments(param_id, step, r, **group):
    """An optimizer with the state of one parameter, whose moment is cut over two ranks."""
    piece = DTensor(rows(0, 1, 2, 3, 4) if r == 0 else rows(5, 6, 7, 8, 9), (10, 4), (2,), [r], [shard(0)])
    return {"state": {param_id: {"step": step, "exp_avg": piece}},
            "param_groups": [{"lr": 0.5, "betas": (0.9, 0.99), "params": [param_id], **group}]}


def differ(name, make, value0, value1):
    refused(name, two(make), "rank0.pt")
    refused(name + ", both values", two(make), value1 + ", but " + value0)


differ("steps at the top", lambda r: {"model": {"w": A}, "step": 7 + r}, "7", "step is 8")
differ("epochs", lambda r: {"model": {"w": A}, "epoch": 1 + r}, "1", "epoch is 2")
differ("schedules", lambda r: {"model": {"w": A}, "lr_scheduler": {"last_epoch": 3 - r}}, "3",
       "lr_scheduler.last_epoch is 2")
differ("learning rates", lambda r: {"model": {"w": A}, "optim": moments(0, Tensor(5), r, lr=0.5 + r / 4)}, "0.5",
       "optim.param_groups[0].lr is 0.75")
differ("a setting inside", lambda r: {"model": {"w": A}, "optim": moments(0, Tensor(5), r, betas=(0.9, 0.99 - r / 10))},
       "0.99", "optim.param_groups[0].betas[1] is 0.89")
differ("steps of a parameter", lambda r: {"model": {"w": A}, "optim": moments(0, Tensor(5 + r), r)}, "5",
       "optim.state[0].step is 6")
for cls, form, one, two_ in (("LongStorage", "q", 5, 6), ("IntStorage", "i", 5, 6), ("DoubleStorage", "d", 0.5, 0.75), ("FloatStorage", "f", 0.5, 0.75),
                             ("ComplexFloatStorage", "Q", 0x15, 0x16)):
    shown = ("0x15", "0x16") if form == "Q" else (str(one), str(two_))
    differ(f"steps of {cls}", lambda r, cls=cls, form=form, value=(one, two_): {"model": {"w": A}, "optim": moments(0, Tensor(
        storage=Storage(data=struct.pack("<" + form, value[r]), n=1, cls=cls), shape=()), r)}, shown[0], f"optim.state[0].step is {shown[1]}")
differ("steps of a name", lambda r: {"model": {"w": A}, "optim": moments("w", 5 + r, r)}, "5",
       "optim.state.w.step is 6")
differ("meshes", lambda r: {"w": DTensor(rows(*range(5 * r, 5 * r + 5)), (10, 4), (2,) if r else (2, 1),
                                         [r] if r else [0, 0], [shard(0)] if r else [shard(0), replicate])},
       "2 x 1 (Shard(0), Replicate)", "its mesh is 2 (Shard(0))")
mixed = two(lambda r: {"model": {"w": A}, "step": 7 + r})
tree = Tree(mixed, degraded=True)
check("of two saves, and degraded", tree.code == 1 and "step is 8" in tree.err, f"{tree.code} {tree.err}")

rates = [{"model": {"w": A}, "optim": moments(0, Tensor(5), r, lr=Tensor(0.5))} for r in (0, 1)]
expect("a learning rate that is a tensor", two(lambda r: rates[r]), {":w": A, "extra:optim.param_groups.0.lr": Tensor(0.5)}, exactly=False)
differ("learning rates that are tensors", lambda r: {"model": {"w": A}, "optim": moments(0, Tensor(5), r, lr=Tensor(0.5 + r / 4))}, "0.5",
       "optim.param_groups[0].lr is 0.75")
tree = Tree(two(lambda r: {"model": {"w": A}, "step": 7, "rng": r, "seed": r, "loss": 0.5 + r, "optim": moments(0, 5, r),
                           "dataloader": {"step": r}}))
check("what is a rank's own", tree.code == 0, tree.err)
expect("files that are lists", two(lambda r: [A, B]), {":0": A, ":1": B})
expect("groups that are none", two(lambda r: {"model": {"w": A}, "optim": {"state": {}, "param_groups": [5 + r]}}), {":w": A})
tree = Tree(two(lambda r: {"model": {f"w{r}": A}, "step": 7,
                           "optim": {"state": {0: {"step": 4 + r, "exp_avg": A}},
                                     "param_groups": [{"lr": 0.5, "weight_decay": 0.0 + r, "params": [0][:1 + r] * (1 + r)}]}}))
check("stages of a pipeline", tree.code == 0, tree.err)
done()
