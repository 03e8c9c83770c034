#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README.md's examples are what the program prints.  `test_readme.py --print` prints them anew."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path.insert(0, os.path.join(TOP, "tests/support"))
from tap import results  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.path.abspath(os.environ.get("ZEROFS", "./zerofs"))
DATA = os.environ.get("ZF_DATA", os.path.join(TOP, "tests/data"))
WRITTEN = 1_795_194_180  # 2026-11-20 17:03 UTC


EXAMPLES = (("info", "run7"), ("tags", "run7"), ("verify", "run7/global_step4"), ("show", "run7", "embed.weight[0:2, :4]"))


def examples():
    """run7 has a save of tests/data, and one that lacks a file; all files have the same time anywhere."""
    with tempfile.TemporaryDirectory(prefix="zf-readme-") as folder:
        run = os.path.join(folder, "run7")
        shutil.copytree(os.path.join(DATA, "deepspeed/zero3_w12"), run, ignore=shutil.ignore_patterns("*expected*", "truth.pt"))
        shutil.copytree(os.path.join(run, "global_step3"), os.path.join(run, "global_step4"))
        os.remove(os.path.join(run, "global_step4/bf16_zero_pp_rank_11_mp_rank_00_optim_states.pt"))
        for top, _, names in os.walk(run):
            for name in names:
                os.utime(os.path.join(top, name), (WRITTEN, WRITTEN))
        env = {**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC", "XDG_CACHE_HOME": "/dev/null"}
        for words in EXAMPLES:
            typed = " ".join(f"'{w}'" if " " in w else w for w in words)
            done = subprocess.run([ZEROFS, *words], cwd=folder, env=env, check=False, timeout=60, capture_output=True, text=True)
            assert done.returncode in (0, 4) and not done.stderr, done
            yield f"$ zerofs {typed}\n" + re.sub(r" in \d+:\d\d$", " in 0:00", done.stdout, flags=re.M)


def same():
    with open(os.path.join(TOP, "README.md"), encoding="utf-8") as f:
        text = f.read()
    for want in examples():
        assert want in text, "README.md lacks\n" + want


if "--print" in sys.argv:
    sys.stdout.writelines(examples())
else:
    results.run("README.md shows what zerofs prints", same)
    results.done()
