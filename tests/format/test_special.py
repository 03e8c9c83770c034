#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""FIFOs, sockets, directories and links in the place of a checkpoint's files: refused, with what is there."""
import os
import shutil
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from golden import Case, main  # noqa: E402

DATA = os.path.join(os.environ["top_srcdir"], "tests/data")
# checkpoint below tests/data -> its files that are replaced
FILES = {
    "dcp/torch2.14/st_2p": [".metadata", "__1_0.distcp"],
    "dcp/torch2.14/nocoll": ["__0.metadata", "__1.metadata", "__1_0.distcp"],
    "dcp/torch2.13/hf_dist_w2": ["shard-00001-model-00001-of-00001.safetensors",
                                 "shard-00002-model-00001-of-00001.safetensors"],
    "dcp/torch2.13/hf_full_map_w2": ["model.safetensors.index.json", "model-00002-of-00002.safetensors"],
    "dcp/torch2.13/verl_fsdp2_w3": ["model_world_size_3_rank_0.pt", "model_world_size_3_rank_2.pt",
                                    "optim_world_size_3_rank_1.pt"],
    "deepspeed/ds0_19_8_zero1_bf16opt_w3": ["global_step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"],
}


def fifo(path):
    os.mkfifo(path)
    return "a FIFO"


def sock(path):
    with socket.socket(socket.AF_UNIX) as s:
        here = os.getcwd()
        os.chdir(os.path.dirname(path))  # sun_path is short
        try:
            s.bind(os.path.basename(path))
        finally:
            os.chdir(here)
    return "a socket"


def directory(path):
    os.mkdir(path)
    return "a directory"


def outward(path):
    os.symlink("/etc/passwd", path)
    return "out of the checkpoint's directory"


def dangling(path):
    os.symlink("nothing-here", path)
    return "a dangling link"


KIND_TEXT = {fifo: "a FIFO", sock: "a socket", directory: "a directory", outward: "out of the checkpoint's directory",
             dangling: "a dangling link"}
KINDS = list(KIND_TEXT)


def told(c, name, what, opts=()):
    """One sentence with the file and what it is; a FIFO that was opened would wait for ever."""
    r = c.run("info", None, *opts)
    text = r.stderr.decode()
    assert r.returncode in (3, 4, 5), f"{name}, {what}: exit status {r.returncode}: {text}{r.stdout.decode()}"
    assert len(text.strip().splitlines()) == 1, text
    assert os.path.basename(name) in text and what in text, f"{name}, {what}: {text}"


def every_file():
    for top, names in FILES.items():
        for name in names:
            for n, kind in enumerate(KINDS):
                with Case() as c:
                    shutil.copytree(os.path.join(DATA, top), c.dir, dirs_exist_ok=True)
                    path = os.path.join(c.dir, name)
                    os.unlink(path)
                    told(c, name, kind(path))
                    if n == 0 and name.endswith(("2_0.distcp", "rank_2.pt", "1_0.distcp")):
                        r = c.run("info", None, "-o", "degraded")
                        assert r.returncode == 4 and b"a FIFO" in r.stdout, r


def series():
    one = {"a": ("U8", [1], b"a")}
    for kind in KINDS:
        with Case() as c:
            c.safetensors("model-00001-of-00002.safetensors", one)
            told(c, "model-00002-of-00002.safetensors", kind(os.path.join(c.dir, "model-00002-of-00002.safetensors")))
        with Case() as c:
            c.safetensors("x.safetensors", one)
            c.file("model.safetensors.index.json", {"weight_map": {"a": "x.safetensors", "b": "y.safetensors"}})
            told(c, "y.safetensors", kind(os.path.join(c.dir, "y.safetensors")))


def torch_series():
    some = os.path.join(DATA, "dcp/torch2.13/verl_fsdp2_w3/extra_state_world_size_3_rank_0.pt")
    for kind in KINDS:
        with Case() as c:
            shutil.copy(some, os.path.join(c.dir, "pytorch_model-00001-of-00002.bin"))
            name = "pytorch_model-00002-of-00002.bin"
            told(c, name, kind(os.path.join(c.dir, name)))
            c.file("pytorch_model.bin.index.json", {"weight_map": {"a": name}})
            told(c, name, KIND_TEXT[kind])


def shard_that_is_no_torch_file():
    some = os.path.join(DATA, "dcp/torch2.13/verl_fsdp2_w3/extra_state_world_size_3_rank_0.pt")
    with Case() as c:
        shutil.copy(some, os.path.join(c.dir, "pytorch_model-00001-of-00002.bin"))
        c.file("pytorch_model-00002-of-00002.bin", b"no pickle")
        c.refused("pytorch_model-00002-of-00002.bin", code=3)


def latest():
    """Which save is meant is not known: none is picked, nothing is opened."""
    for name in ("latest", "latest_universal", "latest_checkpointed_iteration.txt"):
        for kind in (fifo, sock, outward, dangling):
            with Case() as c:
                for step in (1, 2):
                    c.safetensors(f"global_step{step}/model.safetensors", {"a": ("U8", [1], b"a")})
                    c.safetensors(f"step{step}/model.safetensors", {"a": ("U8", [1], b"a")})
                what = kind(os.path.join(c.dir, name))
                told(c, name, "a dangling link" if kind == dangling and name == "latest" else what)
                c.cat("a.u8", b"a", "-o", "tag=step2")


main([every_file, series, torch_series, shard_that_is_no_torch_file, latest])
