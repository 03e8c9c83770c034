# SPDX-License-Identifier: Apache-2.0
"""Writes DeepSpeed saves of several model-parallel ranks (mp_rank = stage * tp + tensor rank) from one whole state.

How a parameter is cut is said in a word: "copy", "0", "1" (a dimension), "two" (two sub-parameters along dimension 0); or, of any sub-parameters,
as (dimension, for each of them its width on each rank).  What
universal_checkpoint_info records is as in deepspeed/checkpoint/constants.py and autotp_universal.py, 0.19.8."""
import itertools
import re

import makeds
from makeds import Half, OrderedDict, State, numel


def widths(n, tp):
    """AutoTP gives one more to the first ranks."""
    return [n // tp + (r < n % tp) for r in range(tp)]


def indices(shape, how, tp, rank):
    """The flat indices of the whole that the shard of a rank has, in its own order, and its shape."""
    if how == "copy" or tp == 1:
        return list(range(numel(shape))), list(shape)
    dim, parts = (0, 2) if how == "two" else (how[0], len(how[1])) if isinstance(how, tuple) else (int(how), 1)
    table = how[1] if isinstance(how, tuple) else [widths(shape[dim] // parts, tp)] * parts
    take = [sum(map(sum, table[:p])) + sum(w[:rank]) + i for p, w in enumerate(table) for i in range(w[rank])]
    axes = [take if d == dim else range(n) for d, n in enumerate(shape)]
    out = []
    for at in itertools.product(*axes):
        flat = 0
        for a, n in zip(at, shape):
            flat = flat * n + a
        out.append(flat)
    return out, [len(take) if d == dim else n for d, n in enumerate(shape)]


class Shard(State):
    """What one rank holds of a whole state: the names of its stage, cut."""

    def __init__(self, whole, cuts, tp, rank, keep=lambda name: True):
        def part(group):
            return OrderedDict((n, indices(s, cuts.get(n, "copy"), tp, rank)[1]) for n, s in group.items() if keep(n))
        super().__init__(*[part(g) for g in whole.groups], frozen=part(whole.frozen), buffers=part(whole.buffers),
                         moments=whole.moments, step=whole.step, seed=whole.seed)
        self.whole, self.cuts, self.tp, self.rank = whole, cuts, tp, rank
        self.groups = [g for g in self.groups if g]
        self.twist = {}

    def values(self, name, state="fp32"):
        v = self.whole.values(name, state)
        out = [v[i] for i in indices(self.whole.shape(name), self.cuts.get(name, "copy"), self.tp, self.rank)[0]]
        if (name, state) in self.twist:
            out[0] += self.twist[name, state]
        return out


def patterns(whole, cuts, vocabulary=(), escape=re.escape):
    """universal_checkpoint_info as Megatron-DeepSpeed writes it."""
    of = {w: ["^" + escape(n) + "$" for n in [*whole.names(), *whole.frozen] if cuts.get(n, "copy") == w] for w in ("copy", "0", "1", "two")}
    return {"universal_checkpoint_version": 0.2, "tp_replicated_parameter_patterns": of["copy"],
            "parameter_with_row_parallelism_patterns": of["1"], "parameter_with_2_sub_params_cat_dim_0": of["two"],
            "vocabulary_parameter_patterns": ["^" + escape(n) + "$" for n in vocabulary],
            "parameter_to_average_patterns": [], "pipeline_replicated_parameter_patterns": []}


def strides(shape):
    return list(makeds.strides(shape))


def affine(whole, cuts, tp):
    """The same said by AutoTP's affine map."""
    params = {}
    for n in [*whole.names(), *whole.frozen]:
        shape, how = list(whole.shape(n)), cuts.get(n, "copy")
        ranks = {}
        for r in range(tp):
            at, part = indices(shape, how, tp, r)
            if how == "two":
                rows, row = part[0] // 2, numel(shape[1:])
                pieces = [{"shape": [rows, *part[1:]], "source": [at[p * rows * row], strides(shape)],
                           "dest": [p * rows * row, strides(part)], "locations": [r]} for p in range(2) if rows]
            else:
                pieces = [{"shape": part, "source": [at[0], strides(shape)], "dest": [0, strides(part)],
                           "locations": [r]}] if at else []
            ranks[r] = {"shard_shape": part, "pieces": pieces}
        params["^" + re.escape(n) + "$"] = {"logical_shape": shape, "ranks": ranks}
    return {"universal_checkpoint_version": 0.4, "affine_map": {"version": 1, "params": params}}


def rename(files, mp):
    return {re.sub(r"mp_rank_\d+", f"mp_rank_{mp:02d}", n): v for n, v in files.items()}


def tensor(whole, cuts, tp, dp, stage=2, info=None, degrees=True, twist=None, **options):
    """Tensor-parallel ranks without a pipeline.  twist: {(rank, name, state): what is added to its first element}."""
    files = {}
    for r in range(tp):
        s = Shard(whole, cuts, tp, r)
        s.twist = {(n, k): v for (rank, n, k), v in (twist or {}).items() if rank == r}
        mine = makeds.zero3(s, dp) if stage == 3 else makeds.zero12(s, dp, stage, **options)
        for n, v in mine.items():
            if "model_states" in n:
                v["mp_world_size"] = tp
                v.update({"universal_checkpoint_info": info} if info else {})
                v.update({"checkpoint_parallel_dimensions": {"tp_degree": tp, "pp_degree": 1}} if degrees else {})
        files.update(rename(mine, r))
    return files


def pipeline(whole, stages, tp=1, dp=1, cuts=None, info=None, tied=None, twist=None, stage=1, mappings=False, degrees=True, axis=None):
    """stages: for each the numbers of its layers; tied: {key: stages that use it}, whose first use has layer 0's file.
    mappings: stage 0 with bf16, where only param_slice_mappings name parameters."""
    files, cuts, tied = {}, cuts or {}, tied or {}
    axis = tp > 1 if axis is None else axis
    for p, layers in enumerate(stages):
        for t in range(tp):
            def keep(name, p=p, layers=layers):
                key = name.split(".")
                return p in tied.get(key[1], ()) if key[0] == "tied_modules" else int(key[0]) in layers
            s, mp = Shard(whole, cuts, tp, t, keep), p * tp + t
            s.twist = {(n, k): v for (rank, n, k), v in (twist or {}).items() if rank == mp}
            mine = makeds.zero12(s, dp, stage)
            weights = mine["mp_rank_00_model_states.pt"]["module"]
            m = mine["mp_rank_00_model_states.pt"]
            m.update({"module": None, "frozen_param_shapes": None, "frozen_param_fragments": None, "mp_world_size": len(stages) * tp})
            m.update({"universal_checkpoint_info": info} if info else {})
            m.update({"checkpoint_parallel_dimensions": {"tp_degree": tp, "pp_degree": len(stages)}} if degrees else {})
            if mappings:
                m["param_shapes"] = None
                for r in range(dp):
                    inner = mine[f"bf16_zero_pp_rank_{r}_mp_rank_00_optim_states.pt"]["optimizer_state_dict"]
                    inner["param_slice_mappings"] = slices(s, dp, r)
                    del inner["zero_stage"]
            files.update(rename(mine, mp))
            for number in {0: [0, *layers]}.get(p, layers):
                name = f"layer_{number:02d}-model_{t:02d}-model_states.pt" if axis else f"layer_{number:02d}-model_states.pt"
                heads = [f"{number}."] + [f"tied_modules.{k}." for k, users in tied.items() if number == 0 and p == min(users)]
                own = OrderedDict((n[len(h):], v) for n, v in weights.items() for h in heads if n.startswith(h))
                if own:
                    files[name] = own
    return files


def slices(state, ranks, rank):
    out = []
    for group in state.groups:
        total = sum(numel(s) for s in group.values())
        size = -(-total // (2 * ranks)) * 2
        lo, hi, at, mine = rank * size, rank * size + size, 0, OrderedDict()
        for n, s in group.items():
            a, b = max(lo, at), min(hi, at + numel(s))
            if a < b:
                mine[n] = makeds.Call("deepspeed.utils.tensor_fragment", "fragment_address", state={"numel": b - a, "start": a - lo})
            at += numel(s)
        out.append(mine)
    return out


def frozen_layer(files, number, name, values, shape, axis=""):
    files[f"layer_{number:02d}{axis}-model_states.pt"] = OrderedDict({name: Half(values, shape)})
    return files


def universal(files, whole):
    """What ds_to_universal.py makes of them."""
    out = {n: v for n, v in files.items() if "mp_rank" in n and n.endswith("model_states.pt") and not n.startswith("layer")}
    out.update({n: v for n, v in makeds.universal(whole, 1).items() if n.startswith("zero/")})
    return out
