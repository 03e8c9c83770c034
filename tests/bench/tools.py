# SPDX-License-Identifier: Apache-2.0
"""What users would run instead: seconds to the first tensor and to all of them, peak memory, bytes read and written, on the same
checkpoints.  What a program reads through a map is not in its bytes read.  Their programs come from the environment of ./scripts/test-frameworks, or from $BENCH_PYTHON.
TOOLS_MPARAMS is the size in millions of parameters, TOOLS_KINDS='olmo megatron' takes some of the checkpoints."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

B = None  # bench.py
MILLIONS = int(os.environ.get('TOOLS_MPARAMS', 170))  # 170: 2.4 GB of ZeRO-3

# Each prints the time.time() at which the first tensor was in memory, if it can have one alone, and ends when all are where
# users want them.  argv: checkpoint, empty folder.
FIRST = 'import sys, time, os\nckpt, out = sys.argv[1:]\ndef first(t): t.float().sum(); print(time.time(), flush=True)\n'
DEEPSPEED = FIRST + '''
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint as get, \\
    convert_zero_checkpoint_to_fp32_state_dict as convert
'''
# For those that ask for torch.distributed: a world of one.
ALONE = '''
import torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + out + "/rendezvous", rank=0, world_size=1)
'''
PROGRAMS = {
    'zero3': {
        'zero_to_fp32, whole': DEEPSPEED + 'first(next(iter(get(ckpt).values())))\nfor k, v in get(ckpt).items(): v.sum()',
        'zero_to_fp32, lazy': DEEPSPEED + 'd = get(ckpt, lazy_mode=True)\nfirst(next(iter(d.values())).contiguous())\n'
                                          'for v in d.values(): v.contiguous().sum()',
        'zero_to_fp32, to files': DEEPSPEED + 'convert(ckpt, out, safe_serialization=True)',
        'ds_to_universal': FIRST + '''
import runpy
tag = open(os.path.join(ckpt, "latest")).read().strip()
sys.argv[1:] = ["--input_folder", os.path.join(ckpt, tag), "--output_folder", os.path.join(out, "universal")]
runpy.run_module("deepspeed.checkpoint.ds_to_universal", run_name="__main__", alter_sys=True)''',
    },
    'dcp': {
        'dcp_to_torch_save': FIRST + 'from torch.distributed.checkpoint.format_utils import dcp_to_torch_save\n'
                                     'dcp_to_torch_save(ckpt, os.path.join(out, "model.pt"))',
        'accelerate merge-weights': FIRST + 'from accelerate.utils import merge_fsdp_weights\n'
                                            'merge_fsdp_weights(ckpt, out)',
    },
    'hf': {
        'safetensors, all loaded and saved': FIRST + '''
from safetensors.torch import load_file, save_file
d = {}
for f in sorted(os.listdir(ckpt)):
    if f.endswith(".safetensors"):
        d.update(load_file(os.path.join(ckpt, f)))
first(next(iter(d.values())))
save_file(d, os.path.join(out, "model.safetensors"))''',
    },
    'megatron': {
        'dist_checkpointing.load_plain_tensors': FIRST + ALONE + '''
from megatron.core.dist_checkpointing import load_plain_tensors
d = [v for v in load_plain_tensors(ckpt).values() if hasattr(v, "sum")]
first(d[0])
for v in d: v.float().sum()''',
    },
    'olmo': {
        'unshard_checkpoint': FIRST + '''
from olmo_core.distributed.checkpoint import unshard_checkpoint
unshard_checkpoint(ckpt + "/model_and_optim", out + "/all", optim=False, use_safetensors=True, quiet=True)''',
        'unshard_checkpoint, a file a tensor': FIRST + '''
from olmo_core.distributed.checkpoint import UnshardStrategy, unshard_checkpoint
unshard_checkpoint(ckpt + "/model_and_optim", out + "/each", optim=False, quiet=True,
                   unshard_strategy=UnshardStrategy.one_file_per_tensor())''',
    },
}
NEEDS = {'zero3': 'deepspeed', 'megatron': 'megatron.core', 'olmo': 'olmo_core'}


def interpreter():
    """A Python with torch, or None."""
    for python in (os.environ.get('BENCH_PYTHON'), os.path.join(B.SRC, 'build-frameworks/venv/bin/python')):
        if python and os.path.exists(python):
            return python
    return None


def has(python, module):
    return subprocess.run([python, '-c', f'import {module}'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


class Cost:
    """Of a process: what it read and wrote, its peak RSS, and when it said something and ended."""

    def __init__(self, *command):
        start = time.time()
        with tempfile.TemporaryFile() as said:
            p = subprocess.Popen([str(c) for c in command], stdout=said, stderr=subprocess.DEVNULL)
            os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
            self.all = time.time() - start
            with open(f'/proc/{p.pid}/io') as f:
                io = dict(re.findall(r'(\w+): (\d+)', f.read()))
            _, status, ru = os.wait4(p.pid, 0)
            p.returncode = status
            said.seek(0)
            lines = said.read().decode().split('\n')
        if status:
            raise RuntimeError('it failed')
        self.first = next((float(x) - start for x in lines if re.fullmatch(r'\d{9,}\.\d+', x)), self.all)
        self.peak, self.read, self.written = ru.ru_maxrss / 1024, int(io['rchar']) / 1e6, int(io['wchar']) / 1e6


def tell(name, first, whole, peak, read, written):
    B.tell(name, f'{first:9.2f} s {whole:9.2f} s {peak:8.0f} MiB {read:8.0f} MB {written:8.0f} MB')
    B.rows[-1].update(first=first, all=whole, peak_mib=peak, read_mb=read, written_mb=written)


def theirs(python, ckpt, kind, out):
    for name, text in PROGRAMS[kind].items():
        try:
            c = Cost(python, '-c', text, ckpt, out)
            tell(name, c.first, c.all, c.peak, c.read, c.written)
        except (RuntimeError, OSError) as e:
            B.tell(name, f'not measured: {e}')
        shutil.rmtree(out)
        os.mkdir(out)


def tensors(at):
    return sorted(os.path.join(at, f) for f in os.listdir(at) if f.endswith(('.f32', '.bf16')))


def ours(ckpt, out):
    start = time.monotonic()
    with B.Mount(B.ZEROFS, 'mount', '-f', ckpt) as m:
        files = tensors(m.at)
        B.seq(files[0])
        first = time.monotonic() - start
        B.seq(*files)
        whole, size = time.monotonic() - start, sum(os.stat(f).st_size for f in files) / 1e6
        with open(os.path.join(m.at, '.zerofs/stats.json')) as f:
            read = sum(s['bytes'] for s in json.load(f)['sources']) / 1e6
        tell('zerofs mount, and read', first, whole, m.peak(), read, 0)
    c = Cost(B.ZEROFS, 'export', '-q', ckpt, 'model.safetensors', out + '/')
    tell('zerofs export', c.all, c.all, c.peak, c.read, os.stat(os.path.join(out, 'model.safetensors')).st_size / 1e6)
    shutil.rmtree(out)
    os.mkdir(out)
    return size


def make_hf(python, ckpt):
    os.mkdir(ckpt)
    text = f'''
import sys, json, torch
from safetensors.torch import save_file
n, index = {MILLIONS} * 10**6 // 4 // 4096, {{}}
for i in range(4):
    name = f"model-{{i + 1:05d}}-of-00004.safetensors"
    save_file({{f"layers.{{i}}.weight": torch.randn(n, 4096)}}, sys.argv[1] + "/" + name, metadata={{"format": "pt"}})
    index[f"layers.{{i}}.weight"] = name
json.dump({{"metadata": {{"total_size": 4 * n * 4096 * 4}}, "weight_map": index}}, open(sys.argv[1] + "/model.safetensors.index.json", "w"))
'''
    B.run(python, '-c', text, ckpt)


def make_olmo(python, ckpt):
    text = f'''
import sys, torch
from olmo_core.distributed.checkpoint import save_model_and_optim_state
model = torch.nn.Sequential(*(torch.nn.Linear(4096, {MILLIONS} * 10**6 // 16 // 4096, bias=False) for _ in range(16)))
save_model_and_optim_state(sys.argv[1] + "/model_and_optim", model)
'''
    os.makedirs(ckpt)
    B.run(python, '-c', text, ckpt)


def make(kind, python, ckpt):
    if kind == 'zero3':
        layers = max(1, MILLIONS // 17)
        B.run(sys.executable, os.path.join(B.SRC, 'tests/support/mkdeepspeed.py'), ckpt, 'zero3', '--ranks', 4, '--layers', layers,
              '--hidden', 1024, '--ffn', 4096, '--kv', 1024, '--vocab', 1024)
    elif kind == 'dcp':
        B.run(sys.executable, os.path.join(B.SRC, 'tests/support/mkdcp.py'), ckpt, '--tensors', 16, '--ranks', 4,
              '--rows', MILLIONS * 10 ** 6 // 16 // 4096 // 4 * 4, '--cols', 4096, '--sparse')
    elif kind == 'megatron':
        B.run(sys.executable, os.path.join(B.SRC, 'tests/support/mkmegatron.py'), ckpt, '--weights', '--layers', 16, '--tensors', 1,
              '--ranks', 4, '--rows', MILLIONS * 10 ** 6 // 16 // 4096 // 4 * 4, '--cols', 4096, '--sparse')
    elif kind == 'olmo':
        make_olmo(python, ckpt)
    else:
        make_hf(python, ckpt)


def part(bench):
    global B
    B = bench
    python = interpreter()
    if not python:
        B.tell('other tools', 'skipped', 'no environment: ./scripts/test-frameworks makes it, or BENCH_PYTHON names one')
        return
    out = os.path.join(B.tmp, 'out')
    os.mkdir(out)
    B.tell('', 'first tensor all tensors    peak RSS     read     written')
    for kind in os.environ.get('TOOLS_KINDS', ' '.join(PROGRAMS)).split():
        ckpt = os.path.join(B.tmp, kind)
        if kind not in PROGRAMS:
            B.tell(kind, 'skipped', f'there is {", ".join(PROGRAMS)}')
            continue
        if kind in NEEDS and not has(python, NEEDS[kind]):
            B.tell(kind, 'skipped', f'{NEEDS[kind]} is not installed there')
            continue
        try:
            make(kind, python, ckpt)
            stored = sum(os.stat(os.path.join(d, f)).st_size for d, _, fs in os.walk(ckpt) for f in fs)
            B.tell(kind, f'{stored / 1e9:6.2f} GB')
            ours(ckpt, out)
            theirs(python, ckpt, kind, out)
        except (RuntimeError, OSError, subprocess.CalledProcessError) as e:
            B.tell(kind, f'not measured: {e}')
        shutil.rmtree(ckpt, ignore_errors=True)
