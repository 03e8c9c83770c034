# SPDX-License-Identifier: Apache-2.0
"""Writes one state of a model and its optimizer in OLMo's layouts, on any number of ranks: flat parameters as FSDP cuts
them (docs/formats/olmo.md has the sources), OLMo-core's ranges and boxes, OLMo's names in safetensors."""
import base64
import json
import math
import os
import pickle
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from torchfile import Call, Tensor, save  # noqa: E402 pylint: disable=wrong-import-position

WRAPPER = "_fsdp_wrapped_module."
# module -> (parameter, shape); 3 and 1 elements: a padding of one looks like the parameter behind it
MODEL = {"": [("wte.weight", (7, 5)), ("ln_f.weight", (7,)), ("empty", (0, 4))],
         "blocks.0": [("att.weight", (3, 9)), ("att.bias", (3,)), ("gain", ()), ("scale", (1,)), ("ff.weight", (5, 7))],
         "blocks.1": [("att.weight", (3, 9)), ("att.bias", (3,)), ("gain", ()), ("scale", (1,)), ("ff.weight", (5, 7))]}
STATES = ("exp_avg", "exp_avg_sq")


def full_name(module, name):
    return f"{module}.{name}" if module else name


def params(model):
    return {full_name(m, n): shape for m, each in model.items() for n, shape in each}


def values(kind, name, n):
    """Float32 values that are the same however many ranks there are."""
    start = sum(name.encode()) * 131 + len(kind) * 17
    return [float((start + 7 * i) % 4093) + len(kind) / 16 for i in range(n)]


def step_of(name):
    return 3.0


class Rank(dict):
    """What rank r of world writes, by path; the tests change it before it is written."""

    def write(self, folder):
        for path, value in self.items():
            path = os.path.join(folder, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if isinstance(value, bytes):
                with open(path, "wb") as f:
                    f.write(value)
            else:
                save(value, path)


# ---- local ---------------------------------------------------------------------------------------------

ALIGN = 4  # elements at whose multiples a parameter begins


def layout(each, shards, pads):
    """[(name, shape, begin)] of the parameters in the vector, the entries of _numels_with_padding, length of a shard."""
    at, entries, placed = 0, [], []
    for name, shape in each:
        if pads and at % ALIGN:
            entries.append(ALIGN - at % ALIGN)
            at += entries[-1]
        placed.append((name, shape, at))
        entries.append(math.prod(shape))
        at += entries[-1]
    if pads and at % shards:
        entries.append(shards - at % shards)
        at += entries[-1]
    return placed, entries, -(-at // shards)


def part(begin, n, shard, size):
    """(offset in the shard, first, count) of a parameter, or None."""
    lo, hi = max(begin, shard * size), min(begin + n, (shard + 1) * size)
    return (lo - shard * size, lo - begin, hi - lo) if lo < hi else None


def handle(module, each, shard, shards, new):
    placed, entries, size = layout(each, shards, new)
    data = [42.0] * size
    infos, offsets, indices = [], [], []
    for j, (name, shape, begin) in enumerate(placed):
        n = math.prod(shape)
        p = part(begin, n, shard, size)
        if not p:
            infos.append(Call("torch.distributed.fsdp._flat_param", "_ShardParamInfo", False, None, None, None, None))
            continue
        at, first, count = p
        data[at:at + count] = values("", full_name(module, name), n)[first:first + count]
        infos.append(Call("torch.distributed.fsdp._flat_param", "_ShardParamInfo", True, at, count, first,
                          first + count - 1))
        offsets.append((first, first + count - 1))
        indices.append(j)
    out = {"data": Tensor(*data), "_fqns": [n for n, _ in each], "_shapes": [s for _, s in each],
           "_numels": tuple(math.prod(s) for _, s in each), "_shard_numel_padded": 0}
    if new:
        out.update(_numels_with_padding=tuple(entries), _shard_param_infos=tuple(infos))
    else:
        out.update(_shard_param_offsets=tuple(offsets),
                   _shard_indices=(indices[0], indices[-1]) if indices else (0, 0))
    return {f"flat_param.{k}": v for k, v in out.items()}


def local_optim(model, shard, shards, new):
    """With NO_SHARD (one shard for all ranks) a moment has its parameter's shape."""
    names, state = [], {}
    for module, each in model.items():
        placed, _, size = layout(each, shards, new)
        for name, shape, begin in placed:
            full, n = full_name(module, name), math.prod(shape)
            p = part(begin, n, shard, size)
            entry = {"grad_norm_exp_avg": Tensor(step_of(full) / 2, shape=())}
            if p:
                _, first, count = p
                entry["step"] = Tensor(step_of(full), shape=())
                for s in STATES:
                    entry[s] = Tensor(*values(s, full, n)[first:first + count], shape=shape if shards == 1 else (count,))
            state[len(names)] = entry
            names.append(WRAPPER + full if not module else f"{WRAPPER}{module}.{WRAPPER}{name}")
    return {"state": state, "param_groups": [{"lr": 0.5, "params": list(range(len(names))), "param_names": names}]}


def train(world, step=3):
    return {"epoch": 0, "global_step": step, "world_size": world, "rng": {"torch": Tensor(1, 2)}}


def local(world, model=None, new=True, replicas=1, step=3):
    """rank -> files"""
    model, shards = model or MODEL, world // replicas
    ranks = []
    for r in range(world):
        shard = r % shards
        modules = [{"name": f"{WRAPPER}{m}" if m else "", "handles": [handle(m, each, shard, shards, new)]}
                   for m, each in model.items()]
        ranks.append(Rank({f"model/rank{r}.pt": {"modules": modules},
                           f"optim/rank{r}.pt": local_optim(model, shard, shards, new),
                           f"train/rank{r}.pt": train(world, step)}))
    ranks[0]["metadata.yaml"] = b"world_size: %d\n" % world
    ranks[0]["config.yaml"] = b"sharded_checkpointer: torch_new\n"
    return ranks


# ---- OLMo-core 0.x -------------------------------------------------------------------------------------

def safetensors(tensors):
    """{key: (dtype, shape, bytes)}"""
    head, data = {}, b""
    for key, (dtype, shape, raw) in tensors.items():
        head[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + data


def floats(v):
    return struct.pack(f"<{len(v)}f", *v)


def core_spec(shape, rank, world, how):
    """What a rank has of a tensor (element numbers), and how metadata.json says it."""
    n = math.prod(shape)
    if how == "boxes" and len(shape) == 2:
        rows = -(-shape[0] // world)
        lo, hi = min(rank * rows, shape[0]), min((rank + 1) * rows, shape[0])
        half = shape[1] // 2  # every other rank is cut in the other direction
        if world == 2:
            own = [r * shape[1] + c for r in range(shape[0]) for c in (range(half) if rank == 0 else range(half, shape[1]))]
            box = ([shape[0], half], [0, 0]) if rank == 0 else ([shape[0], shape[1] - half], [0, half])
        else:
            own, box = list(range(lo * shape[1], hi * shape[1])), ([hi - lo, shape[1]], [lo, 0])
        return own, {"flattened_offsets": None, "local_shape": box[0], "global_offset": box[1]}
    size = -(-n // world)
    lo, hi = min(rank * size, n), min((rank + 1) * size, n)
    ranges = [[lo, hi]] if hi > lo else [[0, 0]]
    if hi - lo > 3:
        ranges = [[lo, lo + 2], [lo + 2, hi]]
    own = list(range(lo, hi))
    if how == "old":
        return own, ranges[0] if len(ranges) == 1 else ranges
    return own, {"flattened_offsets": ranges, "local_shape": None, "global_offset": None}


def core_part(tensors, whole, world, how):
    """metadata.json and the files of tensors {key: (shape, values)} and of those that one rank has whole."""
    files, meta = [{} for _ in range(world)], {}
    key = "flattened_offsets_per_file" if how == "old" else "shard_spec_per_file"
    for name, (shape, v) in tensors.items():
        meta[name] = {"shape": list(shape), "is_sharded": True, "dtype": "F32", key: {}}
        for r in range(world):
            own, spec = core_spec(shape, r, world, how)
            files[r][name] = ("F32", [len(own)], floats([v[i] for i in own]))
            meta[name][key][f"rank_{r}.safetensors"] = spec
    for i, (name, (dtype, shape, raw)) in enumerate(whole.items()):
        n, r = max(math.prod(shape), 1), (world - 1) * (i % 2)
        files[r][name] = (dtype, [n], raw)
        spec = [[0, n]] if how == "old" else {"flattened_offsets": [[0, n]], "local_shape": None, "global_offset": None}
        meta[name] = {"shape": list(shape), "is_sharded": False, "dtype": dtype, key: {f"rank_{r}.safetensors": spec}}
    return {"tensors": meta}, files


def core(world, how="ranges", model=None, step=3):
    """Files by path; metadata as objects, rank files as {key: (dtype, shape, bytes)}."""
    each = params(model or MODEL)
    out = {}
    weights = {n: (s, values("", n, math.prod(s))) for n, s in each.items()}
    moments = {f"state.{n}.__{k}": (s, values(k, n, math.prod(s))) for n, s in each.items() for k in STATES}
    whole = {f"state.{n}.__step": ("F32", [], floats([step_of(n)])) for n, s in each.items() if math.prod(s)}
    whole.update({f"state.{n}.__grad_norm_exp_avg": ("F32", [], floats([step_of(n) / 2])) for n in each})
    group = pickle.dumps({"lr": 0.5, "params": list(range(len(each))), "param_names": list(each)})
    whole["num_param_groups"] = ("I64", [], struct.pack("<q", 1))
    whole["param_group0"] = ("U8", [len(group)], group)
    keys = pickle.dumps(list(STATES))
    whole["state_keys"] = ("U8", [len(keys)], keys)
    for d, (tensors, more) in {"model": (weights, {}), "optim": (moments, whole)}.items():
        meta, files = core_part(tensors, more, world, how)
        out[f"{d}/metadata.json"] = meta
        out.update({f"{d}/rank_{r}.safetensors": f for r, f in enumerate(files)})
    out.update({f"train/rank{r}.pt": train(world, step) for r in range(world)})
    return out


def write(folder, files):
    for path, value in files.items():
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if path.endswith(".safetensors") and isinstance(value, dict):
            value = safetensors(value)
        if path.endswith(".json") and isinstance(value, dict):
            value = json.dumps(value).encode()
        if isinstance(value, bytes):
            with open(path, "wb") as f:
                f.write(value)
        else:
            save(value, path)


# ---- full ----------------------------------------------------------------------------------------------

def key64(*path, pickled=False, protocol=4):
    return base64.urlsafe_b64encode(pickle.dumps((path, pickled), protocol)).decode()


def full(model=None, ids=False, head="", protocol=4):
    """head: in front of the names that the optimizer knows, as DDP's "module."."""
    each = params(model or MODEL)
    weights = {key64(n, protocol=protocol): ("F32", list(s), floats(values("", n, math.prod(s)))) for n, s in each.items()}
    optim = {}
    for i, (n, s) in enumerate(each.items()):
        who = i if ids else head + n
        for k in STATES:
            optim[key64("state", who, k, protocol=protocol)] = ("F32", list(s), floats(values(k, n, math.prod(s))))
        if math.prod(s):
            optim[key64("state", who, "step", protocol=protocol)] = ("F32", [], floats([step_of(n)]))
        optim[key64("state", who, "grad_norm_exp_avg", protocol=protocol)] = ("F32", [], floats([step_of(n) / 2]))
    groups = pickle.dumps([{"lr": 0.5, "params": list(range(len(each))), "param_names": [WRAPPER + head + n for n in each]}])
    optim[key64("param_groups", pickled=True, protocol=protocol)] = ("U8", [len(groups)], groups)
    return {"model.safetensors": weights, "optim.safetensors": optim, "train.pt": train(1)}
