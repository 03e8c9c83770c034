# SPDX-License-Identifier: Apache-2.0
"""hf/ by a recipe: what it costs that tensors are in another order, and a Megatron save beside converting it first.
RECIPES_GB is the size of that save; it needs torch and transformers (./scripts/test-frameworks, or $BENCH_PYTHON)."""
import json
import os
import shutil
import struct
import subprocess
import time

import tools

B = None  # bench.py
GB = float(os.environ.get('RECIPES_GB', 4.2))
TENSORS, ROWS, COLS = 4, 4096, 8192  # of 64 MiB
ORDERS = {
    'heads exchanged with groups, "(g r d) c -> (r g d) c"': ('size g = 8\nsize d = 128', '"(g r d) c -> (r g d) c"', 0.7),
    'rotary halves, "(h d two) c -> (h two d) c"': ('size h = 32\nsize two = 2', '"(h d two) c -> (h two d) c"', 0.7),
    'columns, "r (a b) -> r (b a)"': ('size a = 64', '"r (a b) -> r (b a)"', None),
    'transposed, "r c -> c r"': ('', '"r c -> c r"', 0.7),
}

# argv: folder, GB.  A Llama as Megatron-core saves it with torch_dist from one rank, a tensor for each layer.
MAKE = '''
import sys, os, json, argparse, torch
import torch.distributed.checkpoint as dcp
out, layers = sys.argv[1], int(sys.argv[2])
W, F, H, G, D, V = 3072, 8192, 24, 8, 128, 32768
torch.manual_seed(1)
def t(*shape): return (torch.empty(shape, dtype=torch.bfloat16).normal_() * 0.02)
state = {"embedding.word_embeddings.weight": t(V, W), "output_layer.weight": t(V, W), "decoder.final_layernorm.weight": 1 + t(W)}
for i in range(layers):
    p = f"decoder.layers.{i}."
    state.update({p + "self_attention.linear_qkv.layer_norm_weight": 1 + t(W), p + "self_attention.linear_qkv.weight": t((H + 2 * G) * D, W),
                  p + "self_attention.linear_proj.weight": t(W, H * D), p + "mlp.linear_fc1.layer_norm_weight": 1 + t(W),
                  p + "mlp.linear_fc1.weight": t(2 * F, W), p + "mlp.linear_fc2.weight": t(W, F)})
dcp.save(state, checkpoint_id=out, no_dist=True)
args = argparse.Namespace(num_layers=layers, hidden_size=W, ffn_hidden_size=F, num_attention_heads=H, num_query_groups=G, group_query_attention=True,
                          kv_channels=D, normalization="RMSNorm", swiglu=True, position_embedding_type="rope", rotary_base=500000, rotary_percent=1.0,
                          norm_epsilon=1e-5, add_bias_linear=False, untie_embeddings_and_output_weights=True, max_position_embeddings=4096, seq_length=4096)
torch.save({"args": args, "iteration": 10, "checkpoint_version": 3.0}, out + "/common.pt")
json.dump({"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", "common_backend_version": 1}, open(out + "/metadata.json", "w"))
'''
# argv: the save, a folder.  All tensors into memory, in the order of transformers, into safetensors of 5 GB with a config.json.
CONVERT = '''
import sys, torch
import torch.distributed.checkpoint as dcp
from transformers import LlamaConfig, LlamaForCausalLM
from torch.distributed.checkpoint import FileSystemReader
src, out = sys.argv[1:]
a = torch.load(src + "/common.pt", weights_only=False)["args"]
about = FileSystemReader(src).read_metadata().state_dict_metadata
s = {k: torch.empty(v.size, dtype=v.properties.dtype) for k, v in about.items()}
dcp.load(s, checkpoint_id=src, no_dist=True)
L, W, H, G, D = a.num_layers, a.hidden_size, a.num_attention_heads, a.num_query_groups, a.kv_channels
hf = {"model.embed_tokens.weight": s.pop("embedding.word_embeddings.weight"), "lm_head.weight": s.pop("output_layer.weight"),
      "model.norm.weight": s.pop("decoder.final_layernorm.weight")}
for i in range(L):
    p, q = f"decoder.layers.{i}.", f"model.layers.{i}."
    qkv = s[p + "self_attention.linear_qkv.weight"].view(G, H // G + 2, D, W)
    hf[q + "self_attn.q_proj.weight"] = qkv[:, :-2].reshape(-1, W)
    hf[q + "self_attn.k_proj.weight"] = qkv[:, -2].reshape(-1, W)
    hf[q + "self_attn.v_proj.weight"] = qkv[:, -1].reshape(-1, W)
    hf[q + "self_attn.o_proj.weight"] = s[p + "self_attention.linear_proj.weight"]
    gate, up = s[p + "mlp.linear_fc1.weight"].chunk(2)
    hf[q + "mlp.gate_proj.weight"], hf[q + "mlp.up_proj.weight"] = gate, up
    hf[q + "mlp.down_proj.weight"] = s[p + "mlp.linear_fc2.weight"]
    hf[q + "input_layernorm.weight"] = s[p + "self_attention.linear_qkv.layer_norm_weight"]
    hf[q + "post_attention_layernorm.weight"] = s[p + "mlp.linear_fc1.layer_norm_weight"]
config = LlamaConfig(hidden_size=W, intermediate_size=a.ffn_hidden_size, num_hidden_layers=L, num_attention_heads=H, num_key_value_heads=G, head_dim=D,
                     vocab_size=hf["lm_head.weight"].shape[0], rms_norm_eps=a.norm_epsilon, rope_theta=a.rotary_base, max_position_embeddings=a.seq_length,
                     tie_word_embeddings=False, torch_dtype="bfloat16")
with torch.device("meta"):
    model = LlamaForCausalLM(config)
model.load_state_dict(hf, assign=True)
model.save_pretrained(out)
'''
# argv: a model, a file.  Prints when it is loaded and touched; into the file, what it is.
LOAD = '''
import sys, time, hashlib, torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16)
total = sum(v.view(torch.int16)[::64].sum().item() for v in model.state_dict().values())
print(time.time(), flush=True)
h = hashlib.sha256(repr(total).encode())
for k, v in sorted(model.state_dict().items()):
    h.update(k.encode() + v.view(torch.int16).numpy().tobytes()[:1 << 22])
open(sys.argv[2], "w").write(h.hexdigest())
'''


def make_tensors(path):
    """A file of tensors with random bytes."""
    size = 2 * ROWS * COLS
    os.mkdir(path)
    head = json.dumps({f't.{i}': {'dtype': 'BF16', 'shape': [ROWS, COLS], 'data_offsets': [i * size, (i + 1) * size]} for i in range(TENSORS)}).encode()
    with open(os.path.join(path, 'model.safetensors'), 'wb') as f:
        f.write(struct.pack('<Q', len(head)) + head)
        for _ in range(TENSORS * size >> 20):
            f.write(os.urandom(1 << 20))


def recipe(name, sizes, order):
    path = os.path.join(B.tmp, name + '.recipe')
    with open(path, 'w') as f:
        f.write(f'recipe {name} "{name}"\nmodel A a\n{sizes}\nindex i < {TENSORS}\nt.{{i}} <- t.{{i}} {order}\n')
    return path


def first_read(ckpt, how):
    """Seconds to read hf/ through a mount that nobody read from before, and of the daemon's processor time."""
    with B.Mount(B.ZEROFS, 'mount', '-f', '-o', 'recipe=' + how, ckpt) as m:
        os.listdir(os.path.join(m.at, 'hf'))
        before = B.spent(m.daemon.pid)
        took = B.seq(os.path.join(m.at, 'hf/model.safetensors'))
        return took, (B.spent(m.daemon.pid) - before) / 1e9


def orders():
    """Speed of tensors in another order beside the same ones as they lie."""
    ckpt = os.path.join(B.tmp, 'orders')
    make_tensors(ckpt)
    plain = recipe('plain', '', '')
    B.seq(os.path.join(ckpt, 'model.safetensors'))
    for n, (what, (sizes, order, goal)) in enumerate(ORDERS.items()):
        other, time_of, cpu_of = recipe(f'order{n}', sizes, order), [], []
        for _ in range(B.ROUNDS):
            with B.Round():
                (a, x), (b, y) = first_read(ckpt, plain), first_read(ckpt, other)
            time_of.append(a / b)
            cpu_of.append(x / y)
        B.ratio(what, time_of, goal)
        B.ratio('  by processor time of the daemon', cpu_of)
    shutil.rmtree(ckpt)


def size_of(path):
    return sum(os.stat(os.path.join(at, f)).st_size for at, _, files in os.walk(path) for f in files)


def load(python, path):
    """What it costs, and what the model is."""
    said = os.path.join(B.tmp, 'said')
    cost = tools.Cost(python, '-c', LOAD, path, said)
    with open(said) as f:
        return cost, f.read()


def megatron(python):
    """From a Megatron save to from_pretrained."""
    ckpt, out = (os.path.join(B.tmp, x) for x in ('megatron', 'converted'))
    layers = max(1, round((GB * 1e9 - 4 * 32768 * 3072) / 2 / 100.7e6))
    subprocess.run([python, '-c', MAKE, ckpt, str(layers)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    B.seq(*B.shards(ckpt))
    B.tell('', f'{size_of(ckpt) / 1e9:9.1f} GB, {layers} layers')
    models = []
    start = time.monotonic()
    with B.Mount(B.ZEROFS, 'mount', '-f', ckpt) as m:
        mounted = time.monotonic() - start
        c, model = load(python, os.path.join(m.at, 'hf'))
        models.append(model)
        show('zerofs mount, from_pretrained', mounted + c.first, c.peak, m.peak(), 0)
    os.mkdir(out)
    convert = tools.Cost(python, '-c', CONVERT, ckpt, out)
    c, model = load(python, out)
    models.append(model)
    show('convert, from_pretrained', convert.all + c.first, max(convert.peak, c.peak), 0, size_of(out) / 1e6)
    show('  the conversion alone', convert.all, convert.peak, 0, size_of(out) / 1e6)
    B.tell('  both are one model', 'yes' if models[0] == models[1] else 'NO  <--')
    for path in (ckpt, out):
        shutil.rmtree(path)


def show(name, seconds, peak, daemon, written):
    B.tell(name, f'{seconds:9.2f} s {peak:8.0f} MiB {written:8.0f} MB', f'the daemon {daemon:.0f} MiB' if daemon else '')
    B.rows[-1].update(all=seconds, peak_mib=peak, daemon_mib=daemon, written_mb=written)


def part(bench):
    global B
    B = tools.B = bench
    orders()
    python = tools.interpreter()
    if not python or not tools.has(python, 'torch') or not tools.has(python, 'transformers'):
        B.tell('a Megatron save', 'skipped', 'no torch and transformers: ./scripts/test-frameworks, or BENCH_PYTHON names a Python')
        return
    B.tell('', '  seconds    peak memory     written')
    megatron(python)
