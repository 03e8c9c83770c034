#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Optimizer states in 8 bits in the files of ranks: joined along the rows, or left out with a note; the weights go on."""
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from made import DUMP, Storage, Tensor, Tree, check, done, rebuild, refused  # noqa: E402
from dtensors import DTensor, State, made, replicate, shard, strided  # noqa: E402
from torchfile import Call, named, storage, tensor  # noqa: E402

DATA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "dcp", "torch2.13", "torchao_adamw8_ranks_w2")


def tree(folder):
    """{path: SHA-256}, the notes, the error."""
    run = subprocess.run([DUMP, folder], capture_output=True, text=True, errors="replace", timeout=60)
    rows = [line.split("\t") for line in run.stdout.splitlines()]
    got = {"/".join(filter(None, r[1:3])): hashlib.sha256(bytes.fromhex(r[5])).hexdigest() for r in rows if r[0] == "tensor" and len(r) > 5}
    return {k: v for k, v in got.items() if "param_groups" not in k}, [r[1] for r in rows if r[0] == "note"], run.stderr.strip()


with open(os.path.join(DATA, "expected.json"), encoding="utf-8") as expected:
    want = {k: v["sha256"] for k, v in json.load(expected)["paths"].items()}
got, notes, err = tree(DATA)
ATTRIBUTES = "attributes that are not tensors are not shown: OptimState8bit.signed, OptimState8bit.block_size"
check("torchao's AdamW8bit of two ranks", not err and got == want and notes == [f"optim_world_size_2_rank_0.pt: {ATTRIBUTES}"],
      f"{err} {notes} {[k for k in {*got, *want} if got.get(k) != want.get(k)][:5]}")

# The first value of a table is another one in the second rank's file.
with tempfile.TemporaryDirectory() as d:
    save = os.path.join(d, "save")
    shutil.copytree(DATA, save)
    table = subprocess.run([os.environ.get("ZEROFS", "./zerofs"), "cat", DATA, "optim/exp_avg/wide.weight.qmap.f32"], check=True, stdout=subprocess.PIPE).stdout
    path = os.path.join(save, "optim_world_size_2_rank_1.pt")
    with open(path, "rb") as f:
        data = f.read()
    with open(path, "wb") as f:
        f.write(data.replace(table, bytes([table[0] ^ 1]) + table[1:], 1))
    got, notes, err = tree(save)
    gone = {k for k in want if k not in got}
    notes = [n for n in notes if ATTRIBUTES not in n]
    check("a table that differs costs its state", not err and len(gone) == 3 and len({k.rsplit(".", 1)[0] for k in gone}) == 1 and
          all(k.startswith("optim/") for k in gone) and all(got[k] == want[k] for k in got), f"{err} {gone}")
    check("both files are named", len(notes) == 1 and "rank_0.pt" in notes[0] and "rank_1.pt" in notes[0] and
          next(iter(gone), "?").rsplit(".", 1)[0] in notes[0], notes)

# ---- made: [4, 4] in blocks of a row ---------------------------------------------------------------------

QMAP = (-1.0, 0.0, 1.0)


def state(lo, hi, scale=None, qmap=QMAP, columns=4, **more):
    return State(range(columns * lo, columns * hi), (hi - lo, columns), scale or Tensor(*range(10 + lo, 10 + hi)), Tensor(*qmap), **more)


def weight(lo, hi):
    return Tensor(*range(4 * lo, 4 * hi), shape=(hi - lo, 4))


def files(pieces, mesh=None, placements=None, dtype=None, shape=(4, 4)):
    """One file a rank; `pieces` are its rows and what is there of the state."""
    mesh = mesh or (len(pieces),)
    out = {}
    for r, (rows, piece) in enumerate(pieces):
        coord = [r // mesh[1], r % mesh[1]] if len(mesh) == 2 else [r]
        w = DTensor(weight(*rows), (4, 4), mesh, coord, [shard(0)] if len(mesh) == 1 else [replicate, shard(0)])
        moment = DTensor(piece, shape, mesh, coord, placements or w.placements, **({"dtype": dtype[r]} if dtype else {}))
        out[f"model_world_size_{len(pieces)}_rank_{r}.pt"] = {"w": w}
        out[f"optim_world_size_{len(pieces)}_rank_{r}.pt"] = {"state": {"w": {"exp_avg": moment}}, "param_groups": [{"lr": 0.5, "params": ["w"]}]}
    return out


HALF = [((0, 2), state(0, 2)), ((2, 4), state(2, 4))]
WHOLE = {("optim/exp_avg", "w.codes"): ("u8", "4,4", bytes(range(16)).hex()),
         ("optim/exp_avg", "w.scale"): ("f32", "4", struct.pack("<4f", 10, 11, 12, 13).hex()),
         ("optim/exp_avg", "w.qmap"): ("f32", "3", struct.pack("<3f", *QMAP).hex())}


def joined(name, made_files):
    t = Tree(made_files)
    moments = {k: v for k, v in t.tensor.items() if k[0] == "optim/exp_avg"}
    check(name, t.code == 0 and t.has(":w", weight(0, 4)) and moments == WHOLE and
          [n.split(": ", 1)[1] for n in t.notes] == [ATTRIBUTES], f"{t.err} {t.notes} {moments}")


def quantized(lo, hi, scale):
    """torch's own: the scale and the zero point are numbers of Python's."""
    stored = Storage(data=bytes(range(4 * lo, 4 * hi)), n=4 * (hi - lo), cls="QInt8Storage")
    return Call("torch._utils", "_rebuild_qtensor", stored, 0, (hi - lo, 4), (4, 1), (named("torch", "per_tensor_affine"), scale, 3), False, {})


def left_out(name, made_files, *words, others=False):
    """others: notes of storages besides."""
    t = Tree(made_files)
    notes = [n for n in t.notes if not others or "storages" not in n]
    check(name, t.code == 0 and t.has(":w", weight(0, 4)) and not any(k[0].startswith("optim/exp_avg") for k in t.tensor) and len(notes) == 1 and
          all(w in notes[0] for w in ("exp_avg", "w", "left out", *words)), f"{t.err} {t.notes} {list(t.tensor)}")


quantum = Tree(files([((0, 2), quantized(0, 2, 0.5)), ((2, 4), quantized(2, 4, 0.5))]))
check("a quantized state's numbers", {k[1]: v for k, v in quantum.tensor.items() if k[0] == "optim/exp_avg"} == {
    "w": ("qi8", "4,4", bytes(range(16)).hex()), "w.scale": ("f64", "", struct.pack("<d", 0.5).hex()),
    "w.zero_point": ("i64", "", struct.pack("<q", 3).hex())} and not quantum.notes, f"{quantum.err} {quantum.notes} {quantum.tensor}")
left_out("numbers that differ", files([((0, 2), quantized(0, 2, 0.5)), ((2, 4), quantized(2, 4, 0.25))]), "differs")


class Half:
    """float16"""

    def __init__(self, n):
        self.storage = Storage(data=bytes(2 * n), n=n, cls="HalfStorage")

    def __reduce__(self):
        return rebuild, (self.storage, 0, (self.storage.n,), (1,), False, None)


def other_copy(name, made_files):
    t = Tree(made_files)
    check(name, t.code != 0 and all(w in t.err for w in ("rank_2.pt!", 'a copy of the one in "optim_world_size_4_rank_0.pt"')), t.err)


BOTH = ("rank_0.pt", "rank_1.pt")
joined("halves", files(HALF))
joined("replicas of halves", files(HALF + HALF, mesh=(2, 2)))
for part, other in (("codes", state(2, 4, columns=4).parts["codes"]), ("scale", Tensor(10, 12)), ("qmap", Tensor(-1.0, 0.5, 1.0)),
                    ("scale", Tensor(10, 11, 12)), ("scale", Half(2)), ("more", Tensor(1.0)), ("scale", None)):
    copy = state(0, 2)
    copy.parts[part] = other
    if other is None:
        del copy.parts[part]
    other_copy(f"a replica of another {part}", files(HALF + [((0, 2), copy), HALF[1]], mesh=(2, 2)))
other_copy("a replica of another number", files([((2 * (r % 2), 2 * (r % 2) + 2), quantized(2 * (r % 2), 2 * (r % 2) + 2, 0.5 if r != 2 else 0.25))
                                                 for r in range(4)], mesh=(2, 2)))
joined("a rank without rows", files([HALF[0], HALF[1], ((4, 4), Tensor(shape=(0, 4)))]))
joined("one rank", files([((0, 4), state(0, 4))]))
left_out("a table of another length", files([HALF[0], ((2, 4), state(2, 4, qmap=(*QMAP, 2.0)))]), *BOTH)
left_out("scales of another type", files([HALF[0], ((2, 4), state(2, 4, scale=Half(2)))]), *BOTH)
left_out("blocks of another length", files([HALF[0], ((2, 4), state(2, 4, scale=Tensor(1, 2, 3, 4)))]), *BOTH)
left_out("elements that are no whole blocks", files([((0, 2), state(0, 2, scale=Tensor(1, 2, 3))), ((2, 4), state(2, 4, scale=Tensor(4, 5, 6)))]), "rank_0.pt", "blocks")
left_out("no scale at all", files([((0, 2), state(0, 2, scale=Tensor())), ((2, 4), state(2, 4, scale=Tensor()))]), "rank_0.pt")
left_out("codes of other rows", files([((0, 2), state(0, 3)), HALF[1]]), "rank_0.pt")
left_out("a rank whose state is plain", files([HALF[0], ((2, 4), weight(2, 4))]), "rank_1.pt")
left_out("a first rank whose state is plain", files([((0, 2), weight(0, 2)), HALF[1]]), "rank_0.pt")
left_out("a rank whose state is not understood", files([HALF[0], ((2, 4), Call("torch._utils", "_rebuild_mystery_tensor", 1, 2))]), "rank_1.pt")
left_out("states cut along columns", files(HALF, placements=[shard(1)]), "rank_0.pt")
left_out("rows in several places", files(HALF, placements=[strided(0, 2)]), "rank_0.pt")
codes_only = state(0, 2)
del codes_only.parts["scale"]
left_out("a part that one rank lacks", files([HALF[0], ((2, 4), codes_only)]), "rank_1.pt")
# A value of a kind that is not known costs its state, in whichever file it is.
MYSTERY = Call("torch._utils", "_rebuild_mystery_tensor", 1, 2)
QUANTIZED = Call("torch._utils", "_rebuild_qtensor", weight(0, 2).storage, 0, (2, 4), (4, 1), (Call("torch", "per_tensor_affine"), 1.0, 0), False, None)
UNPLACED = DTensor(weight(0, 2), (4, 4), (2,), [0], [made(named("torch.distributed.tensor.placement_types", "Mystery"))])
UNSTORED = tensor(storage("9", "MysteryStorage", 8), 0, (2, 4), (4, 1))


def piece(r, value):
    return DTensor(weight(2 * r, 2 * r + 2) if value is None else value, (4, 4), (2,), [r], [shard(0)])


for what, value in (("call", MYSTERY), ("subclass", state(0, 2)), ("quantized tensor", QUANTIZED), ("placement", UNPLACED)):
    for rank in (0, 1):
        made_so = files(HALF)
        for r in (0, 1):
            made_so[f"optim_world_size_2_rank_{r}.pt"]["state"]["w"]["exp_avg"] = value if r == rank else piece(r, None)
        left_out(f"{what} in rank {rank}", made_so, f"rank_{rank}.pt", "optim/exp_avg/w", others=True)
for what, value in (("call", MYSTERY), ("storage", UNSTORED)):
    left_out(f"{what} in a piece", files([((0, 2), weight(0, 2)), ((2, 4), value)]), "rank_1.pt", "optim/exp_avg/w")
    left_out(f"{what} in all pieces", files([((0, 2), value), ((2, 4), value)]), "optim/exp_avg/w")
    left_out(f"{what} in one file", {"c.pt": {"model": {"w": weight(0, 4)}, "optimizer": {
        "state": {"w": {"exp_avg": value}}, "param_groups": [{"lr": 0.5, "params": ["w"]}]}}}, "optim/exp_avg/w")
for rank in (0, 1):
    odd_weight = files([((0, 2), weight(0, 2)), ((2, 4), weight(2, 4))])
    odd_weight[f"model_world_size_2_rank_{rank}.pt"]["w"] = MYSTERY
    refused(f"a weight that rank {rank} has as something else", odd_weight, "covered by nothing")

refused("ranks that disagree about the type", files(HALF, dtype=["float32", "bfloat16"]), "rank_0.pt")

# ---- weights: what contradicts is refused -----------------------------------------------------------------

contradicting = {f"model_world_size_2_rank_{r}.pt": {"v": weight(0, 4), "w": DTensor(state(2 * r, 2 * r + 2, qmap=(-1.0, 0.0, 1.0 + r)), (4, 4), (2,), [r], [shard(0)])}
           for r in (0, 1)}
refused("weights whose table differs", contradicting, "rank_1.pt")
done()
