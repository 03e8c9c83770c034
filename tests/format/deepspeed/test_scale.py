#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Made saves of many ranks (tests/support/mkdeepspeed.py): every element against a plain loop, and ranks whose files are
alike byte by byte, or all but."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
import makeds  # noqa: E402 pylint: disable=wrong-import-position
import mkdeepspeed as mk  # noqa: E402 pylint: disable=wrong-import-position
from tap import check, done  # noqa: E402 pylint: disable=wrong-import-position
from torchfile import Tensor  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
PARAMS = mk.model(layers=2, hidden=16, ffn=24, kv=8, vocab=33) + [("scale", (1,))]
RANKS = 20


def run(*args):
    return subprocess.run([ZEROFS, *args], capture_output=True, stdin=subprocess.DEVNULL, timeout=60)


def values(path):
    """What is wrong with the elements."""
    for i, (name, shape) in enumerate(PARAMS):
        for kind, folder in enumerate(("", "optim/exp_avg/", "optim/exp_avg_sq/")):
            got = run("cat", path, f"{folder}{name}.f32")
            if got.stdout != mk.values(i, 0, mk.numel(shape), kind).tobytes():
                return f"{folder}{name}: {got.stderr.decode() or 'other bytes'}"
    return ""


def model_file(path, rank):
    return os.path.join(path, f"global_step{mk.STEP}", f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")


def truncated(path):
    os.truncate(model_file(path, 13), os.path.getsize(model_file(path, 13)) - 30)


def refused(name, word, file, client=None, after=None, params=PARAMS, ranks=RANKS):  # pylint: disable=too-many-arguments
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "run")
        mk.zero3(path, params, ranks, client=client)
        if after:
            after(path)
        got = run("info", path)
        text = got.stderr.decode()
        check(name, got.returncode == 4 and word in text and file in text, f"{got.returncode} {text}")


with tempfile.TemporaryDirectory() as tmp:
    for ranks, limit in ((1, 10 ** 9), (3, 10 ** 9), (RANKS, 150)):
        at = os.path.join(tmp, str(ranks))
        mk.zero3(at, PARAMS, ranks, limit, some=True)
        wrong = values(at)
        check(f"stage 3 of {ranks} ranks, sub groups of {limit}", not wrong, wrong)
    # A rank is lost: its slots are.
    os.remove(os.path.join(tmp, "3", f"global_step{mk.STEP}", "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"))
    lost = run("cat", "-o", "degraded", os.path.join(tmp, "3"), "model.norm.weight.f32")
    check("degraded, a lost rank's slot is lost", lost.returncode == 5 and
          b"bytes 24 to 47 of" in lost.stderr, f"{lost.returncode} {lost.stderr}")
    shutil.rmtree(os.path.join(tmp, "3"))

refused("rank 13 is of another step", "global_steps is 7, but 1000", "zero_pp_rank_13_mp",
        client=lambda r: {"global_steps": 7} if r == 13 else {})
# lr_scheduler.last_epoch lies in a tensor: the pickles are equal, what they mean is not.
refused("equal pickles, another value in a tensor", "lr_scheduler.last_epoch is 8, but 9", "zero_pp_rank_13_mp",
        client=lambda r: {"lr_scheduler": {"last_epoch": Tensor(8.0 if r == 13 else 9.0, shape=())}})
refused("equal pickles, a file cut short", "zip", "zero_pp_rank_13_mp", after=truncated)

# Weights that were gathered into as many files as there are parameters.
MANY = [(f"w{i}", (2,)) for i in range(600)]
with tempfile.TemporaryDirectory() as tmp:
    at = os.path.join(tmp, "run")
    mk.zero3(at, MANY, 1, some=True)
    for i, (name, shape) in enumerate(MANY):
        head = json.dumps({name: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 4]}}).encode()
        with open(os.path.join(at, f"model-{i + 1:05}-of-{len(MANY):05}.safetensors"), "wb") as f:
            f.write(len(head).to_bytes(8, "little") + head + makeds.bf16(mk.values(i, 0, 2, 0)))
    # A list for each file would be 20 MiB.
    got = run("cat", at, "stored/w599.bf16", "--limit", f"model_memory={4 << 20}")
    check("gathered files are one list", got.stdout == makeds.bf16(mk.values(599, 0, 2, 0)), got.stderr)

# Of long pickles the device's number, which each rank has its own of, may be all that differs; but only where it says nothing.
LONG = mk.model(layers=1000, hidden=2, ffn=2, kv=2, vocab=4)
with tempfile.TemporaryDirectory() as tmp:
    at = os.path.join(tmp, "run")
    mk.zero3(at, LONG, 3)
    check("long pickles", os.path.getsize(model_file(at, 0)) > 1 << 20)
    got = run("info", at)
    check("which differ in the device", got.returncode == 0, got.stderr.decode())
refused("long pickles, the last of another step", "global_steps is 7, but 1000", "zero_pp_rank_2_mp", params=LONG, ranks=3,
        client=lambda r: {"global_steps": 7} if r == 2 else {})
refused("long pickles, a device in the settings", "ds_config.device is 'cuda:1', but 'cuda:0'", "zero_pp_rank_1_mp", params=LONG,
        ranks=3, client=lambda r: {"ds_config": {**mk.config(3), "device": f"cuda:{r}"}})

with tempfile.TemporaryDirectory() as tmp:
    at = os.path.join(tmp, "run")
    mk.pipeline(at, pp=2, tp=2, dp=3, layers=3, hidden=16, ffn=24, kv=8, vocab=250)
    rows = run("ls", "-R", "-l", at).stdout.decode()
    check("pipeline x tensor x data is joined", all(word in rows for word in (
        "1.word_embeddings.weight.f32", "4.mlp.dense_h_to_4h.weight.f32", "7.lm_head.weight.f32")), rows)
    info = run("info", "-v", at)
    check("and all of it is there", "21 tensors           13872 elements" in info.stdout.decode(),
          info.stdout.decode() + info.stderr.decode())


def fill(path, byte):
    """All that is long in a torch file."""
    with zipfile.ZipFile(path) as z:
        members = [(m.header_offset, m.file_size) for m in z.infolist() if m.file_size > 10000 and "/data/" in m.filename]
    with open(path, "r+b") as f:
        for header, n in members:
            f.seek(header + 26)
            at = header + 30 + sum(int.from_bytes(f.read(2), "little") for _ in range(2))
            f.seek(at)
            f.write(byte * n)


# Most ranks have nothing but a piece from the middle of a large parameter: each of them is looked at.
with tempfile.TemporaryDirectory() as tmp:
    at = os.path.join(tmp, "run")
    tag = mk.pipeline(at, pp=1, tp=1, dp=250, layers=1, hidden=128, ffn=64, kv=8, vocab=40960)
    got = run("info", at)
    check("stage 1 of 250 ranks", got.returncode == 0, got.stderr.decode())
    for rank in (51, 200):
        file = os.path.join(tag, f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
        for byte, code in ((b"\x3f", 4), (b"\0", 0)):
            fill(file, byte)
            got = run("info", at)
            check(f"rank {rank}, whose masters are of another save", got.returncode == code and
                  (code == 0 or os.path.basename(file) in got.stderr.decode()), f"{got.returncode} {got.stderr.decode()}")

# Entries are put together layer by layer: memory grows with their number, not with its square.
with tempfile.TemporaryDirectory() as tmp:
    at = os.path.join(tmp, "run")
    mk.pipeline(at, pp=1, tp=1, dp=1, layers=300, hidden=8, ffn=8, kv=8, vocab=32)
    got = run("info", "-o", "limit=model_memory=8M", at)
    check("a pipeline of 300 layers, memory", got.returncode == 0, got.stderr.decode())

done()
