#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README.md's example of zerofs info is what the program prints.  `test_readme.py --print` prints it anew."""
import os
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


def example():
    """run7 is a save of tests/data whose files have the same time anywhere."""
    with tempfile.TemporaryDirectory(prefix="zf-readme-") as folder:
        run = os.path.join(folder, "run7")
        shutil.copytree(os.path.join(DATA, "deepspeed/zero3_w12"), run, ignore=shutil.ignore_patterns("*expected*", "truth.pt"))
        for top, _, names in os.walk(run):
            for name in names:
                os.utime(os.path.join(top, name), (WRITTEN, WRITTEN))
        env = {**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        return "$ zerofs info run7\n" + subprocess.run([ZEROFS, "info", "-o", "model_cache=off", "run7"], cwd=folder, env=env, check=True, timeout=60,
                                                       capture_output=True, text=True).stdout


def same():
    with open(os.path.join(TOP, "README.md"), encoding="utf-8") as f:
        text = f.read()
    want = example()
    assert want in text, "README.md lacks\n" + want


if "--print" in sys.argv:
    sys.stdout.write(example())
else:
    results.run("README.md shows what zerofs info prints", same)
    results.done()
