# SPDX-License-Identifier: Apache-2.0
"""Writes DeepSpeed saves of any stage, age and number of ranks, from one state: no torch, no DeepSpeed.

The layouts are those of runtime/zero/stage1.py, stage2.py (stage_1_and_2.py), stage3.py, engine.py and moe/ of the releases named
beside each option; the real saves in tests/data/deepspeed show the same."""
import collections
import os
import random
import struct
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from torchfile import Call, Storage, Tensor, module, rebuild, save, strides  # noqa: E402 pylint: disable=wrong-import-position

OrderedDict = collections.OrderedDict
module("torch", Size=type("Size", (tuple,), {"__reduce__": lambda self: (type(self), (tuple(self),))}))
Size = sys.modules["torch"].Size
for parent in ("deepspeed", "deepspeed.runtime", "deepspeed.runtime.fp16", "deepspeed.utils"):
    module(parent)


def numel(shape):
    n = 1
    for s in shape:
        n *= s
    return n


def bf16(values):
    """Rounded to nearest even."""
    if not any(values):
        return bytes(2 * len(values))
    out = bytearray()
    for v in values:
        b = struct.unpack("<I", struct.pack("<f", v))[0]
        out += struct.pack("<H", (b + 0x7FFF + (b >> 16 & 1)) >> 16)
    return bytes(out)


class Half(Tensor):
    """bf16, a storage of its own"""

    def __init__(self, values, shape):
        super().__init__(shape=shape, storage=Storage(data=bf16(values), n=len(values), cls="BFloat16Storage"))


def f32(values, shape=None):
    return Tensor(*values, shape=shape)


class Empty(Tensor):
    def __init__(self):
        super().__init__(shape=[0], storage=Storage(data=b"", n=0, cls="BFloat16Storage"))


def values_of(name, n, seed=0):
    """Numbers that no other name has."""
    r = random.Random(f"{seed} {name}")
    return [struct.unpack("<f", struct.pack("<f", r.uniform(-2, 2)))[0] for _ in range(n)]


class State:
    """What a trainer holds: groups of {name: shape}, their masters and moments; frozen parameters and buffers."""

    def __init__(self, *groups, frozen=(), buffers=(), moments=("exp_avg", "exp_avg_sq"), step=3, seed=0):
        self.groups = [OrderedDict(g) for g in groups]
        self.frozen, self.buffers, self.moments, self.step, self.seed = OrderedDict(frozen), OrderedDict(buffers), moments, step, seed

    def shape(self, name):
        for g in [*self.groups, self.frozen, self.buffers]:
            if name in g:
                return tuple(g[name])
        raise KeyError(name)

    def values(self, name, state="fp32"):
        n = numel(self.shape(name))
        return values_of(name if state == "fp32" else f"{name} {state}", n, self.seed)

    def names(self):
        return [n for g in self.groups for n in g]

    def expected(self):
        """(set, name) -> (dtype, shape, hex) of everything but stored/ and the step."""
        out = {}
        for n in self.names():
            for state in ("fp32", *self.moments):
                where = "" if state == "fp32" else f"optim/{state}"
                data = struct.pack(f"<{numel(self.shape(n))}f", *self.values(n, state))
                out[where, n] = ("f32", ",".join(map(str, self.shape(n))), data.hex())
        for n in [*self.frozen, *self.buffers]:
            out["", n] = ("bf16", ",".join(map(str, self.shape(n))), bf16(self.values(n)).hex())
        return out


def module_of(state, hidden=()):
    return OrderedDict((n, Half(state.values(n), state.shape(n)))
                       for n in [*state.names(), *state.frozen, *state.buffers] if n not in hidden)


def sizes(group):
    return OrderedDict((n, Size(s)) for n, s in group.items())


def model(state, ranks, shapes=True, **more):
    return {"module": module_of(state), "buffer_names": list(state.buffers), "optimizer": None,
            **({"param_shapes": [sizes(g) for g in state.groups]} if shapes else {}),
            "frozen_param_shapes": sizes(state.frozen) or None,
            "shared_params": {},
            "frozen_param_fragments": OrderedDict((n, Half(state.values(n), state.shape(n))) for n in state.frozen) or None,
            "lr_scheduler": None, "skipped_steps": 0, "global_steps": state.step, "global_samples": 12,
            "dp_world_size": ranks, "mp_world_size": 1, "ds_config": {"zero_optimization": {"stage": 2}}, "ds_version": "0.19.8",
            **more}


def dealt(names, ranks):
    """The order under round_robin_gradients, and of 0.4.0."""
    return [n for r in range(ranks) for n in list(names)[r::ranks]]


def flat(state, names, key):
    return [v for n in names for v in state.values(n, key)]


def partitions(values, ranks, align=2):
    """Equal partitions, and the length of the data in each."""
    size = -(-len(values) // (align * ranks)) * align
    padded = values + [0.0] * (size * ranks - len(values))
    return [(padded[r * size:(r + 1) * size], max(0, min(size, len(values) - r * size))) for r in range(ranks)]


def settings(group, **more):
    return {"lr": 0.01, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01, "params": [group], **more}


def optim12(state, ranks, rank, stage=2, lean=False, order=None, count=None, **more):
    """The inner state of one rank, stages 1 and 2 from 0.4 on."""
    base = {"state": {}, "param_groups": []}
    masters, elastic = [], []
    for g, group in enumerate(state.groups):
        names = order(group, ranks) if order else list(group)
        part, n = partitions(flat(state, names, "fp32"), ranks)[rank]
        masters.append(f32(part[:n]))
        moments = {m: partitions(flat(state, names, m), ranks)[rank] for m in state.moments}
        base["state"][g] = {"step": state.step, **{m: f32(v) for m, (v, _) in moments.items()}}
        elastic.append({"step": state.step, **{m: f32(v[:n]) for m, (v, n) in moments.items()}})
        base["param_groups"].append(settings(g))
    return {"loss_scaler": Call("deepspeed.runtime.fp16.loss_scaler", "LossScaler", state={"cur_scale": 1.0}),
            "overflow": False, "base_optimizer_state": elastic if lean else base,
            "single_partition_of_fp32_groups": masters, "zero_stage": stage,
            "partition_count": count or [ranks] * len(state.groups), "ds_version": "0.19.8", **more}


def write(folder, files):
    for name, value in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        save(value, path)


def zero12(state, ranks, stage=2, prefix="bf16_", **options):
    """The files of a save of stages 1 and 2 as 0.19 writes them."""
    files = {"mp_rank_00_model_states.pt": model(state, ranks)}
    for r in range(ranks):
        files[f"{prefix}zero_pp_rank_{r}_mp_rank_00_optim_states.pt"] = {
            "optimizer_state_dict": optim12(state, ranks, r, stage, **options),
            "ds_config": {"zero_optimization": {"stage": 2}}, "ds_version": "0.19.8"}
    return files


def old_shapes(state):
    """One mapping for all groups (before 0.5.4), in the optimizer's files."""
    return OrderedDict((n, Size(s)) for g in state.groups for n, s in g.items())


def zero1_0_3_14(state, ranks, intervals, declared=None):
    """Stage 1 of 0.3.14: intervals[g] sub-partitions of each partition of group g."""
    files = {"mp_rank_00_model_states.pt": {"module": module_of(state), "optimizer": None, "global_steps": state.step,
                                            "dp_world_size": ranks, "mp_world_size": 1}}
    for r in range(ranks):
        cuts, base = [], []
        for group, n in zip(state.groups, intervals):
            part = {k: partitions(flat(state, group, k), ranks * n, 1) for k in ("fp32", *state.moments)}
            mine = [i * ranks + r for i in range(n)]
            cuts.append([f32(part["fp32"][i][0][:part["fp32"][i][1]]) for i in mine])
            base.append([{"step": state.step, **{m: f32(part[m][i][0][:part[m][i][1]]) for m in state.moments}} for i in mine])
        files[f"zero_pp_rank_{r}_mp_rank_00_optim_states.pt"] = {"optimizer_state_dict": {
            "overflow": False, "base_optimizer_state": base, "zero_stage": 1, "partition_count": ranks,
            "num_comm_intervals_per_group": intervals, "local_sub_partitions_of_fp32_groups": cuts},
            "param_shapes": OrderedDict((n, Size(state.shape(n))) for n in declared) if declared else old_shapes(state)}
    return files


def flat16(state, groups, rest=()):
    """`module` as an engine has it: the weights of each group are views of one vector, in its order; any other has its own."""
    out = OrderedDict()
    for names in groups:
        values = [v for n in names for v in state.values(n)]
        # the vector is as long as all partitions
        whole = Storage(data=bf16(values + [0.0]), n=len(values) + 1, cls="BFloat16Storage")
        at = 0
        for n in names:
            out[n] = Tensor(shape=state.shape(n), storage=whole, offset=at)
            at += numel(state.shape(n))
    out.update((n, Half(state.values(n), state.shape(n))) for n in rest)
    return out


def zero12_merged(state, ranks, declared, deal=False, views=True, stage=2):
    """Stages 1 and 2 of 0.3.14 to 0.4.2: one mapping for all groups, in the order `declared` of the model, frozen ones too; 0.4.0 to
    0.4.2 deal the parameters of each group to the ranks in turn."""
    real = [dealt(g, ranks) if deal else list(g) for g in state.groups]
    rest = [*state.frozen, *state.buffers]
    weights = flat16(state, real, rest) if views else module_of(state)
    files = {"mp_rank_00_model_states.pt": {"module": OrderedDict((n, weights[n]) for n in [*declared, *state.buffers]), "optimizer": None,
                                            "skipped_steps": 0, "global_steps": state.step, "dp_world_size": ranks, "mp_world_size": 1}}
    for r in range(ranks):
        masters, base = [], []
        for names in real:
            part, n = partitions(flat(state, names, "fp32"), ranks, 1)[r]
            masters.append(f32(part[:n]))
            moments = {m: partitions(flat(state, names, m), ranks, 1)[r][0][:n] for m in state.moments}
            base.append({"step": state.step, **{m: f32(v) for m, v in moments.items()}})
        files[f"zero_pp_rank_{r}_mp_rank_00_optim_states.pt"] = {"optimizer_state_dict": {
            "overflow": False, "base_optimizer_state": base, "zero_stage": stage, "partition_count": ranks,
            "single_partition_of_fp32_groups": masters},
            "param_shapes": OrderedDict((n, Size(state.shape(n))) for n in declared)}
    return files


def slots(values, ranks, rank):
    """Rank's slot of one parameter under stage 3; what is beyond its end is noise."""
    n = -(-len(values) // ranks)
    part = values[rank * n:(rank + 1) * n]
    return part + [float("nan")] * (n - len(part))


def zero3(state, ranks, prefix="bf16_", **more):
    files = {}
    for r in range(ranks):
        m = model(state, ranks, **more)
        m["module"] = OrderedDict((n, Half(state.values(n), state.shape(n)) if n in state.buffers else Empty())
                                  for n in m["module"])
        m["frozen_param_fragments"] = OrderedDict((n, Half(slots(state.values(n), ranks, r), [-(-numel(state.shape(n)) // ranks)]))
                                                  for n in state.frozen) or None
        files[f"zero_pp_rank_{r}_mp_rank_00_model_states.pt"] = m
        vectors = {k: [f32([v for n in g for v in slots(state.values(n, k), ranks, r)]) for g in state.groups]
                   for k in ("fp32", *state.moments)}
        files[f"{prefix}zero_pp_rank_{r}_mp_rank_00_optim_states.pt"] = {"optimizer_state_dict": {
            "zero_stage": 3, "overflow": False, "partition_count": ranks, "fp32_flat_groups": vectors["fp32"],
            "optimizer_state_dict": {"state": {g: {"step": state.step, **{m: vectors[m][g] for m in state.moments}}
                                               for g in range(len(state.groups))},
                                     "param_groups": [settings(g) for g in range(len(state.groups))]}},
            "ds_config": {"zero_optimization": {"stage": 2}}, "ds_version": "0.19.8"}
    return files


def universal3(state, ranks):
    """What ds_to_universal.py makes of stage 3: bare vectors, and all that rank 0's optimizer had."""
    files = zero3(state, ranks)
    inner = files["bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"]["optimizer_state_dict"]
    files = {n: v for n, v in files.items() if "model_states" in n}
    files["zero/optimizer_state.pt"] = inner
    for n in state.names():
        for k in ("fp32", *state.moments):
            files[f"zero/{n}/{k}.pt"] = f32(state.values(n, k))
    return files


def universal(state, ranks):
    """What ds_to_universal.py makes of stages 1 and 2."""
    files = {"mp_rank_00_model_states.pt": model(state, ranks), "zero/optimizer_state.pt": {"param_groups": []}}
    for n in state.names():
        for k in ("fp32", *state.moments):
            files[f"zero/{n}/{k}.pt"] = {"cat_dim": 0, "param": f32(state.values(n, k), state.shape(n))}
        files[f"zero/{n}/step.pt"] = state.step
    return files


__all__ = ["Call", "Empty", "Half", "OrderedDict", "Size", "State", "Storage", "Tensor", "bf16", "dealt", "f32", "flat", "flat16", "model",
           "module_of", "numel", "old_shapes", "optim12", "partitions", "rebuild", "settings", "sizes", "slots", "strides",
           "universal", "universal3", "values_of", "write", "zero1_0_3_14", "zero12", "zero12_merged", "zero3"]
