#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zerofs newest: never a save of which files are missing or cut short, always the newest that has all of them.  Files of real
saves appear one after the other, in several orders, beside two older saves; -o tag=whole chooses alike."""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from tap import results  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.environ.get("ZF_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data"))
ORDERS = int(os.environ.get("ZEROFS_NEWEST_ORDERS", "1"))
CUTS = int(os.environ.get("ZEROFS_NEWEST_CUTS", "100"))
# Beside the save: of tests/data.
NO_SAVE = {"expected.json", "truth.pt", "expected_fp32.pt", "README"}
FAMILIES = {
    "deepspeed/zero2_w2/global_step3": "global_step{}", "deepspeed/zero3_w2/global_step3": "global_step{}",
    "deepspeed/pp2_zero1/global_step0": "global_step{}", "dcp/torch2.13/fsdp2_w2_adamw": "step-{}",
    "dcp/torch2.13/verl_fsdp2_w3": "global_step_{}", "hf/transformers5.23.0_gpt2_sharded": "checkpoint-{}",
    "hf/colossalai0.5.0_zero1_w2": "step_{}",
    "megatron/megatron_torch_dist_v0.11.0_torch2.6/iter_0000010": "step_{}",
    "megatron/pypi_0.19.2_legacy_tp2pp2vp2_distopt_buckets/iter_0000010": "iter_00000{}",
    "olmo/pypi_0.6.0/local": "step{}", "torch_checkpointing/fsdp2_w2_0.1.1": "step_{}",
    "consolidated/fairscale0.4.13_llama3_w4": "step_{}",
}


def zerofs(*words):
    return subprocess.run([ZEROFS, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)


def newest(run, *options):
    """The name of the save, or None; and what is said of others."""
    done = zerofs("newest", *options, run)
    assert done.returncode == (0 if done.stdout else 1), done
    assert not done.stdout or done.stdout.startswith(run + "/"), done
    return done.stdout[len(run) + 1:].rstrip("\n") or None, done.stderr


def by_tag(run):
    return json.loads(zerofs("info", "--json", "-o", "tag=whole,model_cache=off", run).stdout)["tag"]


def save_of(source, to):
    shutil.copytree(os.path.join(DATA, source), to, ignore=lambda _, names: NO_SAVE.intersection(names))


def run_of(folder, source, *steps):
    run = tempfile.mkdtemp(dir=folder)
    for step in steps:
        save_of(source, os.path.join(run, FAMILIES[source].format(step)))
    return run


def files_of(source):
    top = os.path.join(DATA, source)
    return sorted(os.path.relpath(os.path.join(d, n), top) for d, _, names in os.walk(top) for n in names if n not in NO_SAVE)


def prefixes(folder):
    rng = random.Random(7)
    for source, name in FAMILIES.items():
        files = files_of(source)
        for order in (files, files[::-1], *(rng.sample(files, len(files)) for _ in range(ORDERS))):
            run = run_of(folder, source, 10, 20)
            for i, file in enumerate(order):
                to = os.path.join(run, name.format(30), file)
                os.makedirs(os.path.dirname(to), exist_ok=True)
                found, said = newest(run, "--quick")
                assert found == name.format(20), f"{source} without {order[i:]}: {found}"
                assert name.format(30) + " is skipped: " in said and name.format(20) not in said.split(" is skipped")[0], said
                shutil.copy(os.path.join(DATA, source, file), to)
            found, said = newest(run, "--quick")
            assert found == name.format(30) and said == "", f"{source}: {found} {said}"
            assert by_tag(run) == name.format(30)


def cuts(folder):
    rng = random.Random(11)
    for source, name in FAMILIES.items():
        run = run_of(folder, source, 10, 20, 30)
        # YAML has no end that could be missing.
        files = [f for f in files_of(source) if not f.endswith(".yaml")]
        for i in range(-(-CUTS // len(FAMILIES))):
            file = rng.choice(files)
            path = os.path.join(run, name.format(30), file)
            with open(path, "rb") as f:
                whole = f.read()
            n = rng.choice((rng.randrange(len(whole)), 0, len(whole.rstrip()) - 1))
            os.truncate(path, n)
            found, said = newest(run, "--quick")
            assert found == name.format(20) and said.startswith(f"zerofs: {name.format(30)} is"), f"{file} cut at {n}: {found} {said}"
            if i == 0:
                assert by_tag(run) == name.format(20), "tag=whole chooses another save"
            with open(path, "wb") as f:
                f.write(whole)
        assert newest(run, "--quick")[0] == name.format(30)


def bytes_are_read(folder):
    """A flipped byte of a tensor is no matter of the structure; without --quick it is found."""
    source = "deepspeed/zero2_w2/global_step3"
    run = run_of(folder, source, 10, 20)
    path = os.path.join(run, "global_step20/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt")
    tensor = json.loads(zerofs("map", "--json", os.path.join(run, "global_step20"), "optim/exp_avg/l1.weight.f32").stdout)
    at = next(e for e in tensor["sources"] if e["file"] == path)["offset"]
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 1]))
    assert newest(run, "--quick")[0] == "global_step20"
    found, said = newest(run)
    assert found == "global_step10" and "global_step20 is skipped: " + path in said, (found, said)


def neighbours(folder):
    """What lies in older saves and is none of theirs does not matter; fewer ranks do until a second save has as few."""
    run = run_of(folder, "dcp/torch2.13/verl_fsdp2_w3", 10, 20, 30, 40)
    for name in ("eval.json", "events.out.tfevents.1", "DONE"):
        with open(os.path.join(run, "global_step_30", name), "w", encoding="ascii") as f:
            f.write("x")
    assert newest(run) == ("global_step_40", "")
    for step in (30, 40):
        for rank in range(3):
            os.unlink(os.path.join(run, f"global_step_{step}/optim_world_size_3_rank_{rank}.pt"))
    assert newest(run) == ("global_step_40", ""), "two saves alike"
    shutil.rmtree(os.path.join(run, "global_step_30"))
    found, said = newest(run)
    assert found == "global_step_20" and "is missing, but global_step_20 has one; -o tag=global_step_40 opens the save as it is" in said, said
    os.mkdir(os.path.join(run, "global_step_50"))
    said = newest(run)[1].splitlines()
    assert [line.split()[1] for line in said] == ["global_step_50", "global_step_40"], said


def numbers_alone(folder):
    """nanotron's saves are called by their steps alone, which latest.txt shows."""
    run = tempfile.mkdtemp(dir=folder)
    for step in (2, 10):
        save_of("nanotron/tp2dp2_zero1_0.4", os.path.join(run, str(step)))
    assert "could mean more than one" in zerofs("newest", run).stderr
    with open(os.path.join(run, "latest.txt"), "w", encoding="ascii") as f:
        f.write("2")
    assert newest(run, "--quick")[0] == "10"


def answers(folder):
    run = run_of(folder, "deepspeed/zero3_w2/global_step3", 10)
    save = os.path.join(run, "global_step10")
    assert zerofs("newest", save).stdout == save + "\n"
    assert zerofs("newest", run + "/").stdout == save + "\n"
    os.truncate(os.path.join(save, files_of("deepspeed/zero3_w2/global_step3")[0]), 99)
    done = zerofs("newest", run)
    assert done.returncode == 1 and not done.stdout and "no save of" in done.stderr.splitlines()[-1], done
    assert zerofs("newest", tempfile.mkdtemp(dir=folder)).returncode == 1
    assert zerofs("newest", os.path.join(folder, "absent")).returncode == 5
    assert zerofs("newest", "-o", "tag=10", run).returncode == 2
    assert zerofs("newest", "-o", "degraded", run).returncode == 2
    for step in range(20, 40, 10):
        os.makedirs(os.path.join(run, f"global_step{step}"))
    assert newest(run)[1].count(" is skipped: ") == 3


with tempfile.TemporaryDirectory(prefix="zf-newest-") as scratch:
    for test in (prefixes, cuts, bytes_are_read, neighbours, numbers_alone, answers):
        results.run(test.__name__, test, scratch)
results.done()
