#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that no tensor needs, and that lost their contents: info notes them, verify counts them as damage.  Python's json writes the
settings, and what it reads is never called broken."""
import json
import os
import random
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from stfile import f32, save  # noqa: E402 pylint: disable=wrong-import-position
from tap import main_in_folders  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.environ.get("ZF_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data"))
SEED = int(os.environ.get("ZEROFS_SEED", "37"))


def run(*words):
    return subprocess.run([ZEROFS, *words], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=120, text=True)


def broken(path):
    """The notes of that kind; verify must say the same, as damage."""
    told = json.loads(run("info", "--json", path).stdout)
    notes = sorted(n for n, k in zip(told["notes"], told["note_kinds"]) if k == "broken")
    done = run("verify", "--json", path)
    rows = [json.loads(r) for r in done.stdout.splitlines()]
    assert sorted(r["text"] for r in rows if r["kind"] == "structure" and r["weight"] == "damage" and r["text"] in notes) == notes, rows
    assert done.returncode == (4 if notes else 0) and rows[-1]["verdict"] == ("DAMAGED" if notes else "WHOLE"), (notes, rows)
    return notes


def copy_of(folder, name):
    out = os.path.join(folder, os.path.basename(name))
    shutil.copytree(os.path.join(DATA, name), out, ignore=shutil.ignore_patterns("expected.json"))
    return out


def write(path, data):
    if os.path.lexists(path):
        os.remove(path)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def settings(folder):
    save_at = copy_of(folder, "hf/transformers5.23.0_gpt2_sharded")
    path = os.path.join(save_at, "config.json")
    with open(path, "rb") as f:
        good = f.read()
    assert broken(save_at) == []
    for data, say in ((b"", "config.json is empty"), (good[:len(good) // 2], "not complete"), (bytes(len(good)), "not complete"),
                      (good[:300] + bytes(len(good) - 300), "not complete"), (b" \n", "not complete")):
        write(path, data)
        found = broken(save_at)
        assert len(found) == 1 and found[0].startswith("config.json") and say in found[0], (data[:20], found)
    os.remove(path)
    os.mkdir(path)
    assert broken(save_at) == ["config.json is a directory, not a file"]
    os.rmdir(path)
    write(path, good)
    os.makedirs(os.path.join(save_at, "figures.json"))  # nothing that a save has
    assert broken(save_at) == []


def any_json(folder):
    """What Python reads is whole, and no beginning of it is."""
    save_at = copy_of(folder, "hf/transformers5.23.0_llama_tied_bf16_single")
    dice = random.Random(SEED)

    def value(depth):
        pick = dice.randrange(8 if depth else 6)
        text = "".join(dice.choice('ab{}[]",:\\/\n\u20ac\U0001f600 ') for _ in range(dice.randrange(9)))
        return (None, True, dice.random() * 10 ** dice.randrange(-30, 30), float("nan"), dice.randrange(-9, 10 ** 20), text,
                [value(depth - 1) for _ in range(dice.randrange(4))] if depth else 0,
                {text + str(i): value(depth - 1) for i in range(dice.randrange(4))} if depth else 0)[pick]

    for n in range(25):
        text = json.dumps({"log_history": value(4), "loss": float("nan"), str(n): value(4)}, indent=dice.choice((None, 2)),
                          ensure_ascii=dice.choice((True, False)))
        path = os.path.join(save_at, "trainer_state.json")
        write(path, text)
        assert "trainer_state" not in run("info", save_at).stdout, text
        cut = text[:dice.randrange(1, len(text) - 1)]
        write(path, cut)
        assert "trainer_state.json is damaged" in run("info", "--json", save_at).stdout, cut
    write(path, json.dumps({"log_history": ["x" * 1000] * 1200})[:-1])  # too long to be read when it is opened
    assert run("info", save_at).stdout.count("damaged") == 0
    done = run("verify", save_at)
    assert done.returncode == 4 and "trainer_state.json: the JSON in it is not complete" in done.stdout, done
    os.remove(path)
    write(os.path.join(save_at, "notes.json"), "")
    done = run("verify", save_at)
    assert done.returncode == 0 and "notes.json: the JSON in it is not complete" in done.stdout, "a file of no known meaning: a note"


def others(folder):
    """Empty files of formats that are never empty, and links to nothing."""
    save_at = copy_of(folder, "deepspeed/zero3_w2")
    tag = os.path.join(save_at, "global_step3")
    assert broken(save_at) == []
    for name in ("scheduler.pt", "training_args.bin", "random_states_0.pkl", "adapter_model.safetensors"):
        write(os.path.join(tag, name), "")
        found = broken(save_at)
        assert len(found) == 1 and found[0] == f"{name} is empty", (name, found)
        os.remove(os.path.join(tag, name))
        os.symlink("nowhere/" + name, os.path.join(tag, name))
        found = broken(save_at)
        assert found == [f"{name} is a link to a missing file"], (name, found)
        os.remove(os.path.join(tag, name))
    write(os.path.join(tag, "__1_0.distcp"), "")  # torch leaves such files for ranks that have nothing to write
    assert broken(save_at) == []
    for name in ("notes.txt", "done"):
        write(os.path.join(tag, name), "")
    assert broken(save_at) == []
    # What a trainer keeps in the run directory is not the save's, except for settings.
    os.symlink("nowhere.pt", os.path.join(save_at, "best.pt"))
    assert broken(save_at) == []
    write(os.path.join(save_at, "config.json"), '{"a": [1, 2')
    assert [n.startswith("config.json is damaged") for n in broken(save_at)] == [True]
    os.remove(os.path.join(save_at, "config.json"))
    write(os.path.join(save_at, "adapter_config.json"), "{}")
    path = save(os.path.join(save_at, "adapter_model.safetensors"), {"a": f32(*range(100))})
    assert broken(save_at) == []
    os.truncate(path, os.path.getsize(path) - 4)
    done = run("verify", save_at)
    assert done.returncode == 4 and "adapter_model.safetensors" in done.stdout, done


def nemo(folder):
    save_at = copy_of(folder, "megatron/nemo2_layout_core_0.12.3")
    assert broken(save_at) == []
    for name, other in (("io.json", "model.yaml"), ("model.yaml", "io.json")):
        path = os.path.join(save_at, "context", name)
        with open(path, "rb") as f:
            good = f.read()
        os.remove(path)
        found = broken(save_at)
        assert len(found) == 1 and found[0].startswith(f"context/{name} is missing") and f"context/{other}" in found[0], found
        write(path, "")
        assert broken(save_at) == [f"context/{name} is empty"]
        if name == "io.json":
            write(path, good[:-3])
            assert [n.startswith("context/io.json is damaged") for n in broken(save_at)] == [True]
        write(path, good)
    path = os.path.join(save_at, "context/nemo_tokenizer/tokenizer_config.json")
    os.truncate(path, 1)
    assert [n.startswith("context/nemo_tokenizer/tokenizer_config.json is damaged") for n in broken(save_at)] == [True]


def forged(folder):
    """A newline in a file's name begins no line of the output, in a pipe either."""
    save_at = copy_of(folder, "hf/transformers5.23.0_gpt2_sharded")
    write(os.path.join(save_at, "a\nWHOLE: 9 files.bin"), b"")
    done = run("verify", save_at)
    assert done.returncode == 4 and "WHOLE: 9 files" in done.stdout, done
    for text in done.stdout, run("info", save_at).stdout:
        assert "?WHOLE: 9 files" in text and not any(line.startswith("WHOLE") for line in text.splitlines()), text


if __name__ == "__main__":
    main_in_folders((settings, any_json, others, nemo, forged))
