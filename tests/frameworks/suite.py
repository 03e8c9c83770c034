# SPDX-License-Identifier: Apache-2.0
"""suite.py ZEROFS SCRATCH [NAME...]: has the trainers write checkpoints, mounts each and lets every judge look at it.

NAME is torch, hf, deepspeed, peft, megatron, olmo, titan, fairscale, torchao, anything, casts, digits, damaged, recipes or stores; without one, all.  ZF_DEEPSPEEDS names folders with other versions.
One line a test; the last line is "N passed, N failed, N skipped".
"""
import importlib.util
import os
import signal
import subprocess
import sys
import time
import traceback

import torch

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import anything
import casts
import consume
import damaged
import digits
import recipes
import stores
from mount import Mount
from tap import Tap

# What trains: make_<name>.py and the packages without which it is skipped.
PRODUCERS = [
    ("torch", []),
    ("hf", ["transformers", "accelerate"]),
    ("deepspeed", ["deepspeed"]),
    ("peft", ["peft", "deepspeed", "transformers"]),
    ("megatron", ["megatron", "psutil"]),
    ("olmo", ["olmo_core"]),
    ("titan", ["torchtitan"]),
    ("fairscale", ["fairscale"]),
    ("torchao", ["torchao"]),
]
SECONDS = 400
# Whole trees are copied where they are small; thousands of files tell cp nothing new.
MOST_COPIED = 50

HERE = os.path.dirname(os.path.abspath(__file__))


def jobs(tap, only, out):
    """[(title, make_<name>.py, folder, PYTHONPATH)] of all that can run here."""
    todo = []
    for name, packages in PRODUCERS:
        lacking = [p for p in packages if importlib.util.find_spec(p) is None]
        if only and name not in only:
            continue
        if lacking:
            tap.skip(name, f"no {', '.join(lacking)}: could not be installed")
            continue
        todo.append((name, f"make_{name}.py", os.path.join(out, name), ""))
        if name == "deepspeed":
            for path in filter(None, os.environ.get("ZF_DEEPSPEEDS", "").split(":")):
                other = os.path.basename(path)
                todo.append((other, "make_deepspeed.py", os.path.join(out, other), path))
    return todo


def start(script, folder, path):
    """A producer in a session of its own, so that it and its ranks can be ended together."""
    environ = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu",
               "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "ACCELERATE_USE_CPU": "true"}
    os.mkdir(folder)
    with open(folder + ".log", "wb") as log:
        return subprocess.Popen([sys.executable, os.path.join(HERE, script), folder], stdin=subprocess.DEVNULL,
                                stdout=log, stderr=subprocess.STDOUT, env=environ, start_new_session=True)


def end(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def tail(path):
    with open(path, errors="replace", encoding="utf-8") as f:
        return "".join(f.readlines()[-15:])


def produce(tap, todo):
    """Runs every producer, all at once."""
    deadline, running = time.monotonic() + SECONDS, []
    try:
        for title, script, folder, path in todo:
            running.append((title, folder, start(script, folder, path)))
        for title, folder, child in running:
            try:
                status = child.wait(max(1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                status = f"not done after {SECONDS} seconds"
            if status == 0:
                tap.ok(f"{title} trains and saves")
            else:
                tap.fail(f"{title} trains and saves", f"{status}\n" + tail(folder + ".log"))
    finally:
        for _, _, child in running:
            end(child)


def judge(tap, case, program, folder, scratch):
    if os.path.exists(os.path.join(folder, "skip")):
        tap.skip(case, tail(os.path.join(folder, "skip")).strip())
        return
    if not os.path.exists(os.path.join(folder, "truth.pt")):
        why = os.path.join(folder, "error")
        tap.fail(case, "was not written: " + (tail(why) if os.path.exists(why) else "no reason known"))
        return
    truth = torch.load(os.path.join(folder, "truth.pt"), weights_only=False)
    checkpoint = os.path.join(folder, truth["checkpoint"])
    try:
        # Small enough that every model is cut into several shards.
        # hf/ is compared by the checkpoint's own names, but where transformers itself opens it.
        own = [] if truth["hub"] or truth["decoder"] else ["recipe=off"]
        with Mount(program, checkpoint, ["shard_size=16k", *own, *truth["options"]], scratch) as mount:
            judges(tap, case, mount, checkpoint, truth, scratch)
    except Exception:  # pylint: disable=broad-except
        tap.fail(f"{case}: mount", traceback.format_exc())


def judges(tap, case, mount, checkpoint, truth, scratch):
    if truth["decoder"]:
        tap.run(f"{case}: hf/ is the model", consume.decoder, mount, *truth["decoder"].values())
        return
    if truth["adapter"]:
        tap.run(f"{case}: PEFT loads adapter/", consume.adapter, mount, checkpoint, truth["adapter"])
        return
    for directory, tensors in truth["sets"].items():
        path = os.path.join(mount, directory)
        ties = truth["ties"] if directory in ("", "stored") else []
        label = f"{case}: /{directory}"
        tap.run(f"{label} names", consume.names, path, tensors)
        tap.run(f"{label} numpy and torch.from_file", consume.raw, path, tensors)
        tap.run(f"{label} np.load", consume.npy, path, tensors)
        tap.run(f"{label} safetensors", consume.safe, path, tensors)
        tap.run(f"{label} torch.load", consume.binary, path, tensors, ties)
        tap.run(f"{label} hf", consume.hub, path, tensors)
        for to in consume.CASTS:
            tap.run(f"{label} as/{to}", consume.cast, path, tensors, to, ties)
        tap.run(f"{label} hard links", consume.linked, path, tensors, ties)
    if len(truth["sets"][""]) <= MOST_COPIED:
        tap.run(f"{case}: cp, dd, tar, rsync, sha256sum", consume.tools, mount, truth["sets"][""], scratch)
    if truth["reference"]:
        tap.run(f"{case}: {truth['reference']}'s converter", consume.converter, mount, checkpoint, truth, scratch)
    if truth["hub"]:
        tap.run(f"{case}: from_pretrained", consume.model, mount, truth)


def main():
    program, scratch, only = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    torch.set_num_threads(2)
    tap = Tap()
    todo = jobs(tap, only, scratch)
    produce(tap, todo)
    for _, _, folder, _ in todo:
        for case in sorted(os.listdir(folder)):
            judge(tap, case, program, os.path.join(folder, case), scratch)
    if not only or "anything" in only:
        anything.run(tap, program, scratch)
    if not only or "casts" in only:
        casts.run(tap, program, scratch)
    if not only or "digits" in only:
        digits.run(tap, program, scratch)
    if not only or "damaged" in only:
        damaged.run(tap, program, scratch)
    if (not only or "recipes" in only) and importlib.util.find_spec("transformers"):
        recipes.run(tap, program, scratch)
    if not only or "stores" in only:
        stores.run(tap, program, scratch)
    good = tap.close()
    sys.exit(not good)


if __name__ == "__main__":
    main()
