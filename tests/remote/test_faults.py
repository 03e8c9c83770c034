#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each request that a checkpoint needs fails in turn: for good (a refusal with a sentence and status 4 or 5, or the very same
tree), as something that is listed and gone, and once (asked again: the same tree).  Never another tree with status 0, nor a
smaller one unless info says which file is not shown.  A sample
with a fixed seed; ZEROFS_FAULTS=all: all of them."""
import os
import random
import sys

sys.path[:0] = [os.path.join(os.environ.get("top_srcdir", "."), "tests", d) for d in ("support", "remote")]
import serve  # noqa: E402
from places import DATA, zerofs  # noqa: E402
from tap import Tap, need_addresses  # noqa: E402

SETS = ["deepspeed/zero2_w2", "deepspeed/zero3_w2_gather16", "hf/transformers5.23.0_gpt2_sharded", "dcp/torch2.13/hsdp_2x2_w4",
        "megatron/run_folder_core_0.19.2", "megatron/pypi_0.16.1_legacy_tp2pp2_glu", "olmo/pypi_0.6.0/full_safetensors"]
ALL = os.environ.get("ZEROFS_FAULTS") == "all"


def listing(url):
    return zerofs("ls", "-R", "-l", url, "-o", "model_cache=off")


def judge(srv, url, want, fault, path):
    """What became of it."""
    srv.faults["status"] = f"{fault}@{path}"
    got = listing(url)
    how = (fault, path, got.returncode, got.stderr)
    if got.returncode:
        assert got.returncode in (4, 5) and got.stderr.strip() and not got.stdout, how
    lacks = set(want.splitlines()) - set(got.stdout.splitlines()) if not got.returncode else set()
    assert not set(got.stdout.splitlines()) - set(want.splitlines()), (how, "there is more")
    assert not lacks or os.path.basename(path) in zerofs("info", url, "-o", "model_cache=off").stdout, (how, lacks)
    del srv.faults["status"]


def faults(name, no_list):
    url, draw = None, random.Random(name)
    with serve.Server(DATA) as srv:
        if no_list:
            srv.faults["no_list"] = "1"
        url = srv.url + name
        want = listing(url)
        assert want.returncode == 0, want.stderr
        asked = sorted({(verb, path) for verb, path, _, _ in srv.log})
        for verb, path in asked if ALL else draw.sample(asked, min(4, len(asked))):
            before = len(srv.log)
            if not (no_list and path.endswith("/")):  # whose listing fails with 404 as it is
                judge(srv, url, want.stdout, "501", path)
                n = sum(p == path for _, p, _, _ in srv.log[before:])  # by one command or two
                assert n <= 6, f"what failed is asked for again and again: {n} times"
            if verb == "GET" and not path.endswith("/") and not os.path.basename(path).startswith(".") and not no_list:
                judge(srv, url, want.stdout, "404", path)
            srv.faults["status"] = f"1*500@{path}"
            got = listing(url)
            assert got.returncode == 0 and got.stdout == want.stdout, (path, got)
            del srv.faults["status"]


need_addresses()
T = Tap()
for s in SETS:
    if os.path.isdir(os.path.join(DATA, s)):
        T.run(f"{s}, a server that lists", faults, s, False)
for s in SETS[:3]:
    if os.path.isdir(os.path.join(DATA, s)):
        T.run(f"{s}, one that does not", faults, s, True)
T.done()
