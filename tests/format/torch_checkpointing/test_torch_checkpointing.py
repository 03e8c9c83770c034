#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_checkpointing: the saves that it wrote, ranks' safetensors joined by metadata.pkl, and what is refused."""
import copy
import hashlib
import itertools
import json
import math
import os
import pickle
import struct
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..")]
from made import Folder, Tensor, check, done, save  # noqa: E402 pylint: disable=wrong-import-position
from stfile import elements, f32, pack  # noqa: E402 pylint: disable=wrong-import-position

DATA = os.path.join(HERE, "../../data/torch_checkpointing")
REPLICATE = {"type": "Replicate"}


def shard(d):
    return {"type": "Shard", "dim": d}


def box_of(shape, mesh, at, placements):
    """(start, stop) a dimension, of the place `at` in the mesh: as torch.chunk cuts."""
    box = [(0, e) for e in shape]
    for n, i, p in zip(mesh, at, placements):
        if p["type"] == "Shard":
            lo, hi = box[p["dim"]]
            each = -(-(hi - lo) // n)
            box[p["dim"]] = (min(lo + i * each, hi), min(lo + (i + 1) * each, hi))
    return box


# name: path, shape, placements by the number of mesh dimensions
MODEL = {"w": (["w"], (5, 4), {1: [shard(0)], 2: [shard(0), shard(1)]}), "b.x": (["b", "x"], (7,), {1: [shard(0)], 2: [shard(0), shard(0)]}),
         "norm": (["norm"], (3,), {1: [REPLICATE], 2: [REPLICATE, shard(0)]}), "scale": (["scale"], (), {1: [REPLICATE], 2: [REPLICATE] * 2})}


def numbers_of(name):
    first = int.from_bytes(hashlib.sha256(name.encode()).digest()[:2], "little")
    return [float(first + i) for i in range(math.prod(MODEL[name][1]))]


def made(mesh=(2,), ranks=None):
    """Files of a save, and its metadata; ranks: the numbers of the mesh's places."""
    world, places = math.prod(mesh), list(itertools.product(*(range(n) for n in mesh)))
    ranks = ranks or list(range(world))
    paths, files = {}, {}
    for name, (path, shape, placed) in MODEL.items():
        spec = {"device_type": "cpu", "mesh_data": tuple(ranks), "mesh_dim_names": None, "mesh_shape": tuple(mesh)}
        data = {"dtype": "torch.float32", "global_shape": list(shape), "mesh_spec": spec, "placements": placed[len(mesh)], "stride": []}
        paths[json.dumps(path, separators=(",", ":"))] = [
            {"sharding_metadata": {"type": "DTensorShardingMetadata", "data": data}, "ranks": tuple(sorted(ranks))}]
    for rank, at in zip(ranks, places):
        parts = {}
        for name, (_, shape, placed) in MODEL.items():
            box = box_of(shape, mesh, at, placed[len(mesh)])
            parts[name] = ([b - a for a, b in box], [numbers_of(name)[i] for i in elements(shape, box)])
        files[f"model-{rank}.safetensors"] = parts
    layout = {r: {"file_path": f"model-{r}.safetensors", "serialization_format": {"type": "SafetensorsSerialization"}} for r in sorted(ranks)}
    return files, {"metadata": {"model": {"nested_path_to_metadata": paths, "rank_to_layout_info": layout}}, "version": "2.0", "world_size": world}


def opened(files, meta, *opts, drop=(), protocol=4):
    with tempfile.TemporaryDirectory() as d:
        for name, parts in files.items():
            with open(os.path.join(d, name), "wb") as f:
                f.write(parts if isinstance(parts, bytes) else pack({k: f32(*v, shape=shape) for k, (shape, v) in parts.items()}))
        if meta is not None:
            with open(os.path.join(d, "metadata.pkl"), "wb") as f:
                pickle.dump(meta, f, protocol)
        for rank in range(2):
            save({"lr": 0.5 + rank}, os.path.join(d, f"scheduler_{rank}.pt"))
            save(7, os.path.join(d, f"step_{rank}.pt"))
            if meta is None:
                save({"state": {0: {"exp_avg": Tensor(1.0)}}}, os.path.join(d, f"optimizer_{rank}.pt"))
        for name in drop:
            os.unlink(os.path.join(d, name))
        return Folder(d, *opts)


def truth():
    return {("", n): ("f32", ",".join(map(str, s)), struct.pack(f"<{math.prod(s)}f", *numbers_of(n)).hex()) for n, (_, s, _) in MODEL.items()}


def same(name, *how, **opts):
    tree = opened(*how, **opts)
    check(name, tree.code == 0 and tree.tensor == truth(), f"{tree.err} {[k for k in truth() if tree.tensor.get(k) != truth()[k]]}")
    return tree


def refused(name, files, meta, *parts, **opts):
    tree = opened(files, meta, **opts)
    check(name, tree.code == 1 and all(p in tree.err for p in parts) and "\n" not in tree.err, f"{tree.code} {tree.err!r}")


# ---- what torch_checkpointing wrote ----

for save_name in ("fsdp2_w2_0.1.1", "fsdp2_safetensors_w2_0.1.1"):
    real = Folder(os.path.join(DATA, save_name))
    want, bad = real.unlike()
    check(f"{save_name}, bit by bit", real.code == 0 and len(want) == 57 == len(real.tensor) and not bad, f"{real.err} {bad[:4]}")

# ---- the same state on other meshes ----

for mesh, ranks in (((1,), None), ((2,), None), ((3,), None), ((4,), [2, 0, 3, 1]), ((8,), None), ((2, 2), None), ((3, 2), [5, 4, 3, 2, 1, 0]), ((1, 4), None)):
    same(f"a mesh of {mesh}, ranks {ranks or 'in order'}", *made(mesh, ranks))
tree = same("metadata of protocol 5", *made(), protocol=5)
check("what each rank saved besides", {"state/scheduler_0.pt.json", "state/scheduler_1.pt.json", "state/step_1.pt.json"} <= set(tree.blob), tree.blob)

# ---- what is refused ----

files, meta = made()


def changed(edit, *parts, name):
    f, m = copy.deepcopy(files), copy.deepcopy(meta)
    edit(f, m)
    refused(name, f, m, *parts)


def data_of(m, path='["w"]'):
    return m["metadata"]["model"]["nested_path_to_metadata"][path][0]["sharding_metadata"]["data"]


changed(lambda f, m: m.update(version="1.0"), "metadata.pkl!version", "only 2.0", name="another version")
changed(lambda f, m: m.pop("world_size"), "metadata.pkl!world_size", "missing", name="no number of ranks")
changed(lambda f, m: m.update(world_size=1), "metadata.pkl!model!rank_to_layout_info[1]", "rank 1 of 1", name="a rank too many")
changed(lambda f, m: f.pop("model-1.safetensors"), "model-1.safetensors", name="a rank's file is missing")
changed(lambda f, m: f["model-1.safetensors"].pop("w"), "metadata.pkl", '"w" is in the files of 1 ranks, expected 2', name="a tensor is missing in a file")
changed(lambda f, m: [p.pop("norm") for p in f.values()], '"norm" is in the files of 0 ranks', name="a tensor is missing in all")
changed(lambda f, m: f["model-0.safetensors"].update(stranger=([1], [0.0])), "model-0.safetensors!stranger", "does not record", name="a tensor without metadata")
changed(lambda f, m: f["model-1.safetensors"].update(w=([3, 4], [0.0] * 12)), "model-1.safetensors!w", "its shape differs", name="a part of another shape")
changed(lambda f, m: f["model-1.safetensors"].update(norm=([3], [0.0] * 3)), "model-1.safetensors!norm", "two saves", name="a copy that differs")
changed(lambda f, m: data_of(m).update(dtype="torch.float16"), "dtype", "float16", name="another type")
changed(lambda f, m: data_of(m).update(global_shape=[6, 4]), "its shape differs", name="a larger shape")
changed(lambda f, m: data_of(m).update(global_shape=[4, 4]), "its shape differs", name="a smaller shape")
changed(lambda f, m: data_of(m).update(placements=[{"type": "StridedShard", "dim": 0, "split_factor": 2}]), "StridedShard", "only Shard", name="a strided placement")
changed(lambda f, m: data_of(m).update(placements=[shard(2)]), "placements[0]!dim", name="a dimension that is not there")
changed(lambda f, m: data_of(m).update(placements=[]), "placements", "0 entries, expected 1", name="placements of another mesh")
changed(lambda f, m: data_of(m)["mesh_spec"].update(mesh_shape=(3,)), "mesh_shape", name="a mesh of more places than ranks")
changed(lambda f, m: data_of(m)["mesh_spec"].update(mesh_shape=(0,)), "mesh_shape", name="a mesh of nothing")
changed(lambda f, m: data_of(m)["mesh_spec"].update(mesh_data=(0, 2)), "mesh_data", "rank 1", name="a mesh without the rank")
changed(lambda f, m: m["metadata"]["model"]["nested_path_to_metadata"]['["w"]'][0].update(ranks=(0,)), "rank 1 is not in any group", name="a rank in no group")
changed(lambda f, m: m["metadata"]["model"]["nested_path_to_metadata"]['["w"]'][0]["sharding_metadata"].update(type="default_tensor_v1"),
        "default_tensor_v1", name="another description")
changed(lambda f, m: m["metadata"]["model"]["nested_path_to_metadata"].update({'["b.x"]': []}), "another path", name="two paths of one name")
changed(lambda f, m: m["metadata"]["model"]["nested_path_to_metadata"].update({'{"a": 1}': []}), "metadata.pkl", name="a path that is none")
changed(lambda f, m: m["metadata"]["model"]["rank_to_layout_info"][0].update(file_path="../model-0.safetensors"), "is not the name of a file", name="a file elsewhere")
refused("safetensors without metadata.pkl", files, None, "torch_checkpointing", "metadata.pkl is missing")

# ---- what damage costs ----

tree = opened(files, meta, "-n", drop=["model-1.safetensors"])
whole = {k: v for k, v in truth().items() if k[1] in ("norm", "scale")}
check("degraded: a rank's rows are lost", tree.code == 0 and whole.items() <= tree.tensor.items() and any("model-1.safetensors" in n for n in tree.notes),
      f"{tree.err} {tree.notes} {tree.tensor}")

done()
