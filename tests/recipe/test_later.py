#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hf/ of a recipe is worked out when it is first looked at: not before, once, and it stays what it is."""
import concurrent.futures
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "format"), os.path.join(HERE, "..", "support")]
from golden import ZEROFS, main  # noqa: E402 pylint: disable=wrong-import-position
from megatron import LAYERS, SETTINGS, Llama, tensors  # noqa: E402 pylint: disable=wrong-import-position
from mounts import mount_point, take_off  # noqa: E402 pylint: disable=wrong-import-position
from tap import need_fuse  # noqa: E402 pylint: disable=wrong-import-position

SHOWN = {"config.json", "model.safetensors", "recipe.json"}
HFS = ["hf", "as/bf16/hf", "as/f16/hf", "as/f32/hf"]


@contextlib.contextmanager
def mounted(c, *opts):
    at = os.path.join(c.dir, "mnt")
    os.makedirs(at, exist_ok=True)
    with mount_point(at):
        subprocess.run([ZEROFS, "mount", *opts, os.path.join(c.dir, "save"), at], check=True, capture_output=True, timeout=60)
        yield at


def seen(top):
    """All that is below: inode, size and bytes."""
    found = {}
    for path, _dirs, files in os.walk(top):
        for name in files:
            with open(os.path.join(path, name), "rb") as f:
                st = os.fstat(f.fileno())
                found[os.path.relpath(f.name, top)] = (st.st_ino, st.st_size, hashlib.sha256(f.read()).hexdigest())
    return found


def index(at):
    with open(os.path.join(at, ".zerofs", "index.json"), "rb") as f:
        return json.load(f)


def the_first_look_reads_the_settings_and_says_why_it_cannot():
    need_fuse()
    with Llama() as c:
        c.save()
        settings = os.path.join(c.dir, "save", "transformer_config.json")
        with mounted(c) as at:
            with open(settings, "rb") as f:
                text = f.read()
            with open(settings, "wb") as f:
                f.write(text.replace(b"10000", b"20000"))
            assert "hf" in os.listdir(at) and "decoder.final_layernorm.weight.i32" in os.listdir(at)
            assert os.path.isdir(os.path.join(at, "hf"))
            for _ in range(2):  # settings of another save are not those of these tensors
                for look in (os.listdir, lambda p: os.stat(os.path.join(p, "config.json"))):
                    try:
                        look(os.path.join(at, "hf"))
                        raise AssertionError("settings that were changed were used")
                    except OSError as error:
                        assert "tale" in os.strerror(error.errno), error
            with open(os.path.join(at, ".zerofs", "log"), encoding="utf-8") as f:
                assert "transformer_config.json" in f.read()


def many_who_look_at_once_see_one_model():
    need_fuse()
    with Llama() as c:
        c.save()
        whole = c.run("cat", "hf/model.safetensors", at="save")
        assert whole.returncode == 0 and len(whole.stdout) > 1000
        digest = hashlib.sha256(whole.stdout).hexdigest()
        first = None
        for _ in range(3):
            with mounted(c) as at, concurrent.futures.ThreadPoolExecutor(16) as pool:
                asked = [pool.submit(seen, os.path.join(at, d)) for d in HFS * 4]
                all_of = {d: a.result() for d, a in zip(HFS * 4, asked)}
                assert all(a.result() == all_of[d] for d, a in zip(HFS * 4, asked))
                assert all(set(v) == (SHOWN if d == "hf" else SHOWN - {"recipe.json"}) for d, v in all_of.items()), all_of
                assert all_of["hf"]["model.safetensors"][2] == digest
                numbers = [x[0] for v in all_of.values() for x in v.values()]
                assert len(set(numbers)) == len(numbers)
                others = {os.stat(os.path.join(at, n)).st_ino for n in os.listdir(at)}
                assert not others & set(numbers)
                first = first or all_of
                assert all_of == first  # also after a remount
                take_off(at)


def the_index_has_the_model_whoever_looks_first():
    need_fuse()
    texts = []
    with Llama() as c:
        c.save()
        for looked in (False, True):
            with mounted(c) as at:
                files = os.statvfs(at).f_files
                if looked:
                    seen(os.path.join(at, "hf"))
                i = index(at)
                assert any("by the recipe megatron-llama" in n for n in i["notes"]), i["notes"]
                assert {"hf/config.json", "hf/recipe.json"} <= {f["path"] for f in i["files"]}
                texts.append(i)
                assert os.statvfs(at).f_files == files
                take_off(at)
        assert texts[0] == texts[1]


def rules_that_turn_out_wrong_leave_the_names_of_the_checkpoint():
    need_fuse()
    with Llama() as c:
        c.save(without=["decoder.layers.1.mlp.linear_fc2.weight"])
        with mounted(c) as at:
            assert os.listdir(os.path.join(at, "hf")) == ["model.safetensors"]
            with open(os.path.join(at, "hf", "model.safetensors"), "rb") as f, open(os.path.join(at, "model.safetensors"), "rb") as g:
                assert f.read() == g.read()
            assert any("hf/ is not the model" in n for n in index(at)["notes"])


def exported_and_mounted_models_are_one():
    need_fuse()
    with Llama() as c:
        c.save()
        out = os.path.join(c.dir, "out")
        for d in HFS:
            r = subprocess.run([ZEROFS, "export", os.path.join(c.dir, "save"), d + "/", out], capture_output=True, check=False, timeout=60)
            assert r.returncode == 0, r.stderr.decode()
            below = next(p for p in (os.path.join(out, d), out) if os.path.exists(os.path.join(p, "config.json")))
            there = {k: v[1:] for k, v in seen(below).items() if k in SHOWN}
            with mounted(c) as at:
                assert there == {k: v[1:] for k, v in seen(os.path.join(at, d)).items()}
                take_off(at)
            shutil.rmtree(out)
        names = c.names()
        assert sum(".mlp.down_proj." in n for n in names) == LAYERS


def a_model_of_which_a_file_is_replaced_is_not_mixed():
    """The checkpoint, its settings or the config.json beside it become those of another save: while hf/ is read, or before."""
    need_fuse()
    other = {n: (d, s, bytes(255 - x for x in b)) for n, (d, s, b) in tensors().items()}
    side = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 30, "hidden_size": 16, "num_attention_heads": 4}
    for place in ("save/model.safetensors", "save/transformer_config.json", "side/config.json"):
        for looked in (False, True):
            with Llama() as c:
                c.save()
                c.file("side/config.json", side)
                opts = ("-o", "side=" + os.path.join(c.dir, "side"))
                want = {n: c.run("cat", "hf/" + n, *opts, at="save").stdout for n in ("model.safetensors", "config.json")}
                with mounted(c, *opts) as at, contextlib.ExitStack() as held:
                    for name in SHOWN if looked else ():
                        f = held.enter_context(open(os.path.join(at, "hf", name), "rb", buffering=0))
                        f.read(16)
                        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    if place == "save/model.safetensors":
                        new = c.safetensors("new", other)
                    else:
                        new = c.file("new", {**side, "vocab_size": 28} if place.startswith("side") else {**SETTINGS, "rotary_base": 7})
                    os.rename(new, os.path.join(c.dir, place))
                    refused = 0
                    for name, data in want.items():
                        try:
                            with open(os.path.join(at, "hf", name), "rb") as f:
                                assert f.read() == data, f"{name}: bytes of another save"
                        except OSError as error:
                            assert "tale" in os.strerror(error.errno), error
                            refused += 1
                    assert refused or looked and place != "save/model.safetensors", "the file that was replaced is not noticed"
                    held.close()
                    take_off(at)


main([the_first_look_reads_the_settings_and_says_why_it_cannot, many_who_look_at_once_see_one_model,
      the_index_has_the_model_whoever_looks_first, rules_that_turn_out_wrong_leave_the_names_of_the_checkpoint,
      exported_and_mounted_models_are_one, a_model_of_which_a_file_is_replaced_is_not_mixed])
