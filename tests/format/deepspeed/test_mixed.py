#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of two steps of one run in one folder (mixing.py), for every real save of DeepSpeed here."""
import glob
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from made import done  # noqa: E402
from mixing import mixtures  # noqa: E402

DATA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "deepspeed")
SWAPPED = ("one", "scale")  # in the sub-group of ds0_19_8_zero3_nvme_swp_w2 that is swapped out, with "big"


def untold_of(save):
    """What nothing in the files of that save tells."""
    def untold(mix):
        if "zenflow" in save:
            return True  # its model lags behind the masters, and before the first step there are no others
        if "nvme" in save and all(k[1] in ("big", *SWAPPED) for k in mix.torn):
            return True  # a swap file is nothing but numbers
        if mix.torn:
            return False
        if "two saves are mixed" in mix.notes:
            # one of the two gave the frozen ones and buffers that stage 3 keeps in the model's files, and nothing else
            return any(all(k[0] == "" for k in side) for side in (mix.first, mix.second))
        # moments that were converted, and of which no other copy is there
        return "_universal" in save and all(k[0].startswith("optim/exp_avg") for k in mix.fewer())
    return untold


for path in sorted(glob.glob(os.path.join(DATA, "*", ""))):
    with open(os.path.join(path, "latest"), encoding="ascii") as pointer:
        tag = pointer.read().strip()
    for place in [tag, *(os.path.basename(p) for p in glob.glob(path + "*_universal") if os.path.isdir(p))]:
        title = os.path.basename(path[:-1]) + "/" + place
        mixtures(title, path + place, untold_of(title))
done()
