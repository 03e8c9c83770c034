# SPDX-License-Identifier: Apache-2.0
"""What the tests of places share: what `zerofs export` writes from an address is, byte for byte, what it writes from the directory on
disk."""
import atexit
import filecmp
import os
import shutil
import subprocess
import tempfile

ZEROFS = os.environ.get("ZEROFS", "./build/zerofs")
DATA = os.environ.get("ZF_DATA", "tests/data")
TMP = tempfile.mkdtemp(prefix="zf-places-")
atexit.register(shutil.rmtree, TMP, ignore_errors=True)
SETS = ["deepspeed/zero2_w2", "hf/bin_sharded_llama", "olmo/full", "dcp/torch2.13/fsdp2_w2_adamw"]


def zerofs(*words, **env):
    home = {"HOME": TMP, "PATH": os.environ["PATH"]}
    home.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    return subprocess.run([ZEROFS, *words], env={**home, **env}, capture_output=True, text=True, timeout=120)


def sets():
    found = [s for s in SETS if os.path.isdir(os.path.join(DATA, s))]
    return found or sorted(f"deepspeed/{n}" for n in os.listdir(os.path.join(DATA, "deepspeed")))[:2]


def tree(where, **env):
    dest = tempfile.mkdtemp(dir=TMP)
    got = zerofs("export", "-q", where, ".", dest + "/x", **env)
    assert got.returncode == 0, got.stderr
    return dest + "/x"


def same(a, b):
    c = filecmp.dircmp(a, b)
    names = [n for n in c.common_files if not n.startswith(".")]
    _, differ, odd = filecmp.cmpfiles(a, b, names, shallow=False)
    left, right = [[n for n in x if not n.startswith(".zerofs")] for x in (c.left_only, c.right_only)]
    assert not differ and not odd and not left and not right, (a, b, differ, odd, left, right)
    return len(names) + sum(same(os.path.join(a, d), os.path.join(b, d)) for d in c.common_dirs if d != ".zerofs-export")


def compare(url, local, **env):
    assert same(tree(local), tree(url, **env)) > 0
