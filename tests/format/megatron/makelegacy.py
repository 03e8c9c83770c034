# SPDX-License-Identifier: Apache-2.0
"""Legacy Megatron saves of made-up models, cut over ranks as Megatron cuts them, and what all of it is when joined."""
import collections
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
import torchfile as tf  # noqa: E402 pylint: disable=wrong-import-position

NAMESPACE = tf.named("argparse", "Namespace")
BF16, FLOAT32 = tf.named("torch", "bfloat16"), tf.named("torch", "float32")


class Mem:
    """A tensor of one type, as a list of elements in C order."""

    def __init__(self, shape, values, dtype="f32"):
        self.shape, self.values, self.dtype = tuple(shape), list(values), dtype

    def bytes(self):
        return struct.pack(f"<{len(self.values)}{'I' if self.dtype == 'f32' else 'H'}", *self.values)

    def rows(self, a, b):
        n = len(self.values) // self.shape[0]
        return Mem((b - a, *self.shape[1:]), self.values[a * n:b * n], self.dtype)

    def columns(self, a, b):
        r, c = self.shape
        return Mem((r, b - a), [v for i in range(r) for v in self.values[i * c + a:i * c + b]], self.dtype)

    def bf16(self):
        """Rounded; the low halves made here are below one half."""
        return Mem(self.shape, [v >> 16 for v in self.values], "bf16")

    def torch(self, attrs=None):
        t = tf.Tensor(shape=self.shape, storage=tf.Storage(data=self.bytes(), n=len(self.values), cls="FloatStorage" if self.dtype == "f32" else "BFloat16Storage"))
        return t if attrs is None else Marked(t, attrs)

    def row(self):
        return self.dtype, ",".join(map(str, self.shape)), self.bytes().hex()


class Marked:
    """A tensor that is pickled with attributes."""

    def __init__(self, t, attrs):
        self.t, self.attrs = t, attrs

    def __reduce__(self):
        f = tf.module("torch._tensor", _rebuild_from_type_v2=lambda *a: None)._rebuild_from_type_v2
        func, args = self.t.__reduce__()
        return f, (func, tf.named("torch", "Tensor"), args, self.attrs)


def fresh(name, shape):
    rng, n = random.Random(name), 1
    for s in shape:
        n *= s
    return Mem(shape, [(rng.getrandbits(1) << 31) | (rng.randrange(100, 140) << 23) | (rng.getrandbits(7) << 16) | rng.getrandbits(15) for _ in range(n)])


def cat(parts, dim):
    if dim == 0:
        return Mem((sum(p.shape[0] for p in parts), *parts[0].shape[1:]), [v for p in parts for v in p.values], parts[0].dtype)
    rows = parts[0].shape[0]
    return Mem((rows, sum(p.shape[1] for p in parts)),
               [v for i in range(rows) for p in parts for v in p.values[i * p.shape[1]:(i + 1) * p.shape[1]]], parts[0].dtype)


def piece(full, cut, t, n):
    """What rank t of n holds."""
    if cut in ("copy", "duplicated") or n == 1:
        return full
    if cut == "columns":
        w = full.shape[1] // n
        return full.columns(t * w, t * w + w)
    if cut == "gated":
        half, w = full.shape[0] // 2, full.shape[0] // 2 // n
        return cat([full.rows(t * w, t * w + w), full.rows(half + t * w, half + t * w + w)], 0)
    w = full.shape[0] // n
    return full.rows(t * w, t * w + w)


class Model:
    """Sizes are those of args.  `layers`: how many each (virtual chunk, stage) has, [v][p]."""

    def __init__(self, tp=1, pp=1, vp=None, ep=1, etp=None, layers=None, **args):
        self.tp, self.pp, self.vp, self.ep, self.etp = tp, pp, vp, ep, etp or tp
        self.layers = layers or [[1] * pp for _ in range(vp or 1)]
        self.args = {"num_layers": sum(map(sum, self.layers)), "hidden_size": 8, "ffn_hidden_size": 12, "num_attention_heads": 4,
                     "padded_vocab_size": 16, "tensor_model_parallel_size": tp, "pipeline_model_parallel_size": pp,
                     "virtual_pipeline_model_parallel_size": vp, "expert_model_parallel_size": ep, "expert_tensor_parallel_size": etp,
                     "swiglu": True, "untie_embeddings_and_output_weights": True, "bf16": True, "iteration": 10, **args}
        self.iteration, self.version = 10, 3.0
        self.optimizer = "plain"      # or "flat", or None
        self.align = 64               # elements, of a parameter in a flat buffer; 1 up to core 0.7
        self.attributes = True
        self.grouped = False          # experts in one module: "matrix" is GroupedMLP's
        self.old = False              # names of Megatron-LM before core
        self.edit = lambda rank, model: None
        self.edit_file = lambda rank, value: None

    def layer(self, moe):
        for name, *rest in self.as_built(moe):
            if self.args.get("_fused"):  # norms that are a part of the module behind them
                name = {"self_attention.q_layernorm.weight": "self_attention.linear_q_up_proj.layer_norm_weight",
                        "self_attention.kv_layernorm.weight": "self_attention.linear_kv_up_proj.layer_norm_weight"}.get(name, name)
            yield (name, *rest)

    def as_built(self, moe):
        h, f, n = self.args["hidden_size"], self.args["ffn_hidden_size"], self.args["num_attention_heads"]
        glu = 2 if self.args["swiglu"] else 1
        groups = self.args.get("num_query_groups") or n
        head = h // n
        fc1 = "gated" if glu == 2 else "rows"
        if self.args.get("multi_latent_attention"):
            q, kv = self.args["q_lora_rank"], self.args["kv_lora_rank"]
            qk, pos, v = (self.args[k] for k in ("qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"))
            yield from (("input_layernorm.weight", "copy", (h,)), ("self_attention.linear_proj.weight", "columns", (h, n * v)))
            if q is None:
                yield "self_attention.linear_q_proj.weight", "rows", (n * (qk + pos), h)
            else:
                yield from (("self_attention.linear_q_down_proj.weight", self.args.get("_down", "copy"), (q, h)),
                            ("self_attention.linear_q_up_proj.weight", "rows", (n * (qk + pos), q)),
                            ("self_attention.q_layernorm.weight", "copy", (q,)))
            yield from (("self_attention.linear_kv_down_proj.weight", self.args.get("_down", "copy"), (kv + pos, h)),
                        ("self_attention.linear_kv_up_proj.weight", "rows", (n * (qk + v), kv)),
                        ("self_attention.kv_layernorm.weight", "copy", (kv,)))
        elif self.old:
            yield from (("input_layernorm.weight", "copy", (h,)), ("input_layernorm.bias", "copy", (h,)),
                        ("self_attention.query_key_value.weight", "rows", ((n + 2 * groups) * head, h)),
                        ("self_attention.query_key_value.bias", "rows", ((n + 2 * groups) * head,)),
                        ("self_attention.dense.weight", "columns", (h, h)), ("self_attention.dense.bias", "copy", (h,)),
                        ("post_attention_layernorm.weight", "copy", (h,)), ("mlp.dense_h_to_4h.weight", fc1, (glu * f, h)),
                        ("mlp.dense_4h_to_h.weight", "columns", (h, f)), ("mlp.dense_4h_to_h.bias", "copy", (h,)))
            return
        else:
            yield from (("input_layernorm.weight", "copy", (h,)), ("self_attention.linear_proj.weight", "columns", (h, h)),
                        ("self_attention.linear_proj.bias", "copy", (h,)),
                        ("self_attention.linear_qkv.weight", "rows", ((n + 2 * groups) * head, h)),
                        ("self_attention.linear_qkv.bias", "rows", ((n + 2 * groups) * head,)))
        if self.args.get("_cross"):
            yield from (("cross_attention.linear_proj.weight", "columns", (h, h)), ("cross_attention.linear_q.weight", "rows", (n * head, h)),
                        ("cross_attention.linear_kv.weight", "rows", (2 * groups * head, h)), ("self_attention.k_layernorm.weight", "copy", (head,)))
        yield "pre_mlp_layernorm.weight", "copy", (h,)
        if not moe:
            yield from (("mlp.linear_fc1.weight", fc1, (glu * f, h)), ("mlp.linear_fc2.weight", "columns", (h, f)))
            return
        e, m = self.args["num_experts"], self.args.get("moe_ffn_hidden_size") or f
        shared = self.args.get("moe_shared_expert_intermediate_size")
        if shared:
            yield from (("mlp.shared_experts.linear_fc1.weight", fc1, (glu * shared, h)), ("mlp.shared_experts.linear_fc2.weight", "columns", (h, shared)),
                        ("mlp.shared_experts.gate_weight", "copy", (1, h)))
        yield "mlp.router.weight", "copy", (e, h)
        if self.grouped == "matrix":
            yield from (("mlp.experts.weight1", "columns", (h, e * glu * m)), ("mlp.experts.weight2", "rows", (e * m, h)))
            return
        for i in range(e):
            a, b = ("mlp.experts.linear_fc1.weight", "mlp.experts.linear_fc2.weight") if self.grouped else \
                (f"mlp.experts.local_experts.{i}.linear_fc1.weight", f"mlp.experts.local_experts.{i}.linear_fc2.weight")
            yield a + (str(i) if self.grouped else ""), fc1, (glu * m, h), i
            yield b + (str(i) if self.grouped else ""), "columns", (h, m), i

    def tensors(self):
        """(place: "first", "last" or (v, p, local layer), name in the file, name when joined, cut, full tensor, expert) in the order of a rank's file."""
        h, vocab = self.args["hidden_size"], self.args["padded_vocab_size"]
        top = "language_model." if self.old else ""
        stack = top + ("encoder" if self.old else "decoder")
        yield "first", top + "embedding.word_embeddings.weight", None, "rows", fresh("emb", (vocab, h)), None
        yield "first", top + "embedding.position_embeddings.weight", None, "copy", fresh("pos", (6, h)), None
        number = 0
        for v, row in enumerate(self.layers):
            for p, n in enumerate(row):
                for k in range(n):
                    moe = bool(self.args.get("num_experts")) and number % self.args.get("_freq", 1) == 0
                    for name, cut, shape, *e in self.layer(moe):
                        full = f"{stack}.layers.{number}.{name}"
                        yield (v, p), f"{stack}.layers.{k}.{name}", full, cut, fresh(full, shape), e[0] if e else None
                    number += 1
        for i in range(self.args.get("mtp_num_layers") or 0):
            for name, cut, shape in (("enorm.weight", "copy", (h,)), ("hnorm.weight", "copy", (h,)), ("eh_proj.weight", "rows", (h, 2 * h)),
                                     *((f"transformer_layer.{n}", c, s) for n, c, s, *_ in self.layer(False)), ("final_layernorm.weight", "copy", (h,))):
                full = f"mtp.layers.{i}.{name}"
                yield "last", full, None, cut, fresh(full, shape), None
        yield "last", f"{stack}.final_layernorm.weight", None, "copy", fresh("final", (h,)), None
        tied = not self.args["untie_embeddings_and_output_weights"]
        if not tied or self.pp > 1:
            name = "word_embeddings_for_head.weight" if self.old and tied else top + "output_layer.weight"
            yield "last", name, None, "rows", fresh("emb" if tied else "out", (vocab, h)), None

    def expert_ranks(self):
        """(tensor rank, expert rank, rank in the expert's tensor group) that write, of a stage."""
        return [(r % self.tp, r // self.etp % self.ep, r % self.etp) for r in range(max(self.tp, self.etp * self.ep))]

    def rank(self, t, p, e, et):
        """(chunk, name, cut, piece of the master, joined name) of what a rank holds, in the order of its file."""
        last = len(self.layers) - 1
        for place, name, full_name, cut, full, expert in self.tensors():
            v, stage = {"first": (0, 0), "last": (last, self.pp - 1)}.get(place, place)
            if stage != p:
                continue
            if expert is not None:
                each = self.args["num_experts"] // self.ep
                if expert // each != e:
                    continue
                local = expert - e * each
                name = name[:-len(str(expert))] + str(local) if self.grouped else name.replace(f"local_experts.{expert}.", f"local_experts.{local}.")
            yield v, name, cut, piece(full, cut, et if expert is not None else t, self.etp if expert is not None else self.tp), full_name or name, expert

    def expected(self):
        """(set, name) -> (dtype, shape, hex) of what is joined."""
        out = {}
        for _, name, full_name, _, full, _ in self.tensors():
            n = full_name or name
            for where, x in (("", full), ("stored", full.bf16()), ("optim/exp_avg", moment(full, 1)), ("optim/exp_avg_sq", moment(full, 2))):
                if self.optimizer is None and where:
                    continue
                out[where, n] = (full.bf16() if self.optimizer is None else x).row()
        return out

    def files(self):
        """path -> value"""
        out = {}
        for p in range(self.pp):
            for t, e, et in self.expert_ranks():
                dir_ = f"mp_rank_{t:02d}" + (f"_{p:03d}" if self.pp > 1 else "") + (f"_{e:03d}" if self.ep > 1 else "")
                model, flat = self.file((t, p, e, et))
                out[dir_ + "/model_optim_rng.pt"] = model
                if flat:
                    out[dir_ + "/distrib_optim.pt"] = flat
        return out

    def file(self, rank):
        rows = list(self.rank(*rank))
        chunks = [collections.OrderedDict() for _ in self.layers]
        for v, name, _, x, _, _ in rows:
            chunks[v][name] = x.bf16().torch()
        for c in chunks:
            self.edit(rank, c)
        value = {"args": tf.Call("argparse", "Namespace", state={k: v for k, v in self.args.items() if k[0] != "_"}), "checkpoint_version": self.version,
                 "iteration": self.iteration, "rng_state": [{"torch_rng_state": Mem((3,), [1, 2, 3]).torch()}]}
        if self.old:
            chunks = [nest(c) for c in chunks]
        value.update({"model": chunks[0]} if not self.vp else {f"model{i}": c for i, c in enumerate(chunks)})
        flat = None
        if self.optimizer == "plain":
            value["optimizer"] = self.plain(rows)
        elif self.optimizer == "flat":
            value["optimizer"] = {"optimizer": {"param_groups": [{"step": 2}]}}
            flat = self.flat(rows)
        self.edit_file(rank, value)
        return value, flat

    def plain(self, rows):
        def one(rows):
            groups, state, lists = [], {}, []
            for norm in (False, True):
                mine = [r for r in rows if (len(r[3].shape) == 1) == norm]
                groups.append({"params": list(range(len(state), len(state) + len(mine))), "lr": 1e-3})
                lists.append([r[3].torch(self.attrs(r[2])) for r in mine])
                for r in mine:
                    state[len(state)] = {"step": Mem((), [0x40000000]).torch(), "exp_avg": moment(r[3], 1).torch(), "exp_avg_sq": moment(r[3], 2).torch()}
            return {"optimizer": {"state": state, "param_groups": groups}, "fp32_from_fp16_params": lists}
        if self.args.get("num_experts") and self.grouped != "matrix":  # of one expert rank, experts are in no list of their own
            return [one([r for r in rows if r[5] is None]), one([r for r in rows if r[5] is not None])]
        return one(rows)

    def attrs(self, cut):
        if not self.attributes or cut == "copy":
            return None
        # Transformer Engine marks what all ranks have ("duplicated") as it does what is cut.
        return {"tensor_model_parallel": True, "partition_dim": int(cut == "columns"), "partition_stride": 2 if cut == "gated" else 1}

    def flat(self, rows):
        def one(rows):
            out = {"buckets_coalesced": True}
            for v in range(len(self.layers)):
                vectors = {"param": [], "exp_avg": [], "exp_avg_sq": []}
                for r in reversed([r for r in rows if r[0] == v]):
                    for k, x in (("param", r[3]), ("exp_avg", moment(r[3], 1)), ("exp_avg_sq", moment(r[3], 2))):
                        vectors[k] += [0] * (-len(vectors[k]) % self.align) + x.values
                n = len(vectors["param"])
                out[v] = {(BF16, FLOAT32): {**{k: Mem((n,), x).torch() for k, x in vectors.items()}, "numel_unpadded": n}}
            return out
        if self.args.get("num_experts") and self.grouped != "matrix":
            return [one([r for r in rows if r[5] is None]), one([r for r in rows if r[5] is not None])]
        return one(rows)


def moment(x, k):
    return Mem(x.shape, [(v * 2654435761 + k) & 0x3FFFFFFF for v in x.values])


def nest(c):
    """The mappings of old releases: {"language_model": {"embedding": {"word_embeddings": {"weight": …}}, "encoder": {"layers.0…": …}}}"""
    out = {}
    for name, t in c.items():
        path = name.split(".")
        if path[0] == "language_model":
            keys = path[:2] + ([".".join(path[2:])] if path[1] == "encoder" else [path[2], ".".join(path[3:])] if path[1] == "embedding" else [".".join(path[2:])])
        else:
            keys = [path[0], ".".join(path[1:])]
        at = out
        for k in keys[:-1]:
            at = at.setdefault(k, {})
        at[keys[-1]] = t
    return out


def write(folder, files):
    for path, value in files.items():
        full = os.path.join(folder, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        if isinstance(value, bytes):
            with open(full, "wb") as f:
                f.write(value)
        else:
            tf.save(value, full)
