#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zerofs tags: every save of a run once, whole or with the reason why not, and the one that a mount would open."""
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from tap import results  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.environ.get("ZF_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data"))
SAVE = os.path.join(DATA, "deepspeed/zero3_w2/global_step3")


def zerofs(code, *words):
    done = subprocess.run([ZEROFS, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, (words, done)
    return done.stdout


def tags(run, *options):
    return {row["tag"]: row for row in map(json.loads, zerofs(0, "tags", "--json", *options, run).splitlines())}


def run_of(folder, name, saves, latest=None):
    run = os.path.join(folder, name)
    for save in saves:
        shutil.copytree(SAVE, os.path.join(run, save))
    if latest:
        with open(os.path.join(run, "latest"), "w", encoding="ascii") as f:
            f.write(latest)
    return run


def whole_and_not(folder):
    run = run_of(folder, "run", ["global_step3", "global_step20", "global_step100", "global_step101"], "global_step20")
    gone = sorted(os.listdir(os.path.join(run, "global_step100")))[0]
    os.unlink(os.path.join(run, "global_step100", gone))
    cut = os.path.join(run, "global_step101", sorted(n for n in os.listdir(SAVE) if "optim" in n)[0])
    os.truncate(cut, os.path.getsize(cut) // 2)
    found = tags(run)
    assert list(found) == ["global_step3", "global_step20", "global_step100", "global_step101"], "in natural order"
    assert {tag: row["state"] for tag, row in found.items()} == {
        "global_step3": "whole", "global_step20": "whole", "global_step100": "incomplete", "global_step101": "incomplete"}
    assert [tag for tag, row in found.items() if row["opened"]] == ["global_step20"]
    assert gone.split("_")[0] in found["global_step100"]["reason"] or "missing" in found["global_step100"]["reason"]
    assert os.path.basename(cut) in found["global_step101"]["reason"], found["global_step101"]
    for tag in ("global_step3", "global_step20"):
        files = [os.path.join(run, tag, n) for n in os.listdir(SAVE) if n.endswith(".pt")]
        assert found[tag]["files"] == len(files) and found[tag]["bytes"] == sum(map(os.path.getsize, files)), found[tag]
        assert found[tag]["written"] == max(int(os.path.getmtime(f)) for f in files)
    rows = zerofs(0, "tags", run).splitlines()
    assert [row.split()[-1] for row in rows if row.startswith("*")] == ["global_step20"], rows
    assert all(len(row) <= 80 for row in rows if not row.startswith(" " * 11)), rows
    # What is not whole can be opened with a reason to: then it is damaged, not incomplete.
    assert tags(run, "-o", "degraded")["global_step101"]["state"] == "damaged"


def ranks_of_every_family(_):
    """As the save records them (DeepSpeed, Megatron), or as the names of its files count them (DCP); else none."""
    for run, want in (("deepspeed/zero3_w2", 2), ("deepspeed/zero2_w12", 12), ("megatron/pypi_0.17.1_dp3_fully_reshardable_padded", 3),
                      ("dcp/torch2.15", None), ("hf/automodel0.7.0_weights_w2", 0)):
        at = os.path.join(DATA, run)
        if want is None:
            want = len({n.split("_")[2] for _, _, names in os.walk(at) for n in names if n.endswith(".distcp")})
            assert want > 1
        rows = tags(at).values()
        assert rows and all(row["ranks"] == (want or None) for row in rows), (run, rows)
    heads, row = zerofs(0, "tags", os.path.join(DATA, "deepspeed/zero2_w12")).splitlines()
    assert heads[:heads.index(" ranks") + 6].split()[-1] == "ranks" and row[:heads.index(" ranks") + 6].split()[-1] == "12", row


def opened_like_a_mount(folder):
    """The mark is at the save that info shows, with a pointer and without."""
    for name, saves, latest in (("pointer", ["global_step3", "global_step4"], "global_step3"), ("one", ["global_step7"], None)):
        run = run_of(folder, name, saves, latest)
        shown = json.loads(zerofs(0, "info", "--json", run))["tag"]
        assert [tag for tag, row in tags(run).items() if row["opened"]] == [shown]


def every_chunk(_):
    """Arrays of many files count each of them."""
    run = os.path.join(DATA, "megatron/megatron_zarr_core_v0.4.0")
    (row,) = tags(run).values()
    chunks = [os.path.join(d, n) for d, _, names in os.walk(run) for n in names
              if n.replace(".", "").isdigit() and not d.endswith(".sync")]  # zarr's own, beside the array
    assert row["files"] == len(chunks) and row["bytes"] == sum(map(os.path.getsize, chunks)), (row, len(chunks))


def opens(folder, command):
    """How often files of the folder are opened meanwhile, by inotify(7), which counts opens of a file that follow one another as one."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK)
    assert fd >= 0 and libc.inotify_add_watch(fd, folder.encode(), 0x20) >= 0, os.strerror(ctypes.get_errno())
    try:
        command()
        events, names = os.read(fd, 1 << 16), []
        while events:
            n = int.from_bytes(events[12:16], "little")
            names.append(events[16:16 + n].rstrip(b"\0"))
            events = events[16 + n:]
        return len([n for n in names if n])
    finally:
        os.close(fd)


def opened_once(folder):
    """Also the save that a mount would open."""
    run = run_of(folder, "once", ["global_step3", "global_step4"], "global_step3")
    counts = [opens(os.path.join(run, save), lambda: zerofs(0, "tags", "-o", "model_cache=off", run))
              for save in ("global_step3", "global_step4")]
    assert counts[0] < 1.5 * counts[1], counts


def no_run(folder):
    run = run_of(folder, "alone", ["global_step3"], "global_step3")
    assert list(tags(os.path.join(run, "global_step3"))) == [""], "a save is the only one of itself"
    assert zerofs(0, "tags", os.path.join(run, "global_step3")).splitlines()[1].endswith("  .")
    os.mkdir(os.path.join(folder, "empty"))
    zerofs(1, "tags", os.path.join(folder, "empty"))
    zerofs(5, "tags", os.path.join(folder, "absent"))
    zerofs(2, "tags")


with tempfile.TemporaryDirectory(prefix="zf-tags-") as scratch:
    for test in (whole_and_not, ranks_of_every_family, every_chunk, opened_once, opened_like_a_mount, no_run):
        results.run(test.__name__, test, scratch)
results.done()
