#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of two steps of one run in one folder (mixing.py), for every real save of OLMo and OLMo-core here."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from made import done  # noqa: E402
from mixing import mixtures  # noqa: E402

DATA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "olmo")
SAVES = ["core_v0.1.0", "full", "pypi_0.6.0/full_safetensors", "pypi_0.6.0/local", "pypi_0.6.0/olmo_core", "pypi_core_2.4.0/step2",
         "synthetic_local_torch2.0_w3", "torch2.14/fsdp_local"]


def steps(some):
    return [k for k in some if k[0] == "optim/step"]


def untold_of(folder):
    """Only what counts steps tells: the optimizer in each parameter's state, the trainer."""
    trainer = any(f.startswith("train") for f in os.listdir(folder))

    def untold(mix):
        both = steps(mix.first) and steps(mix.second)
        return "two saves" in mix.notes or not (both or trainer and steps(mix.second))
    return untold


for save in SAVES:
    mixtures(save, os.path.join(DATA, save), untold_of(os.path.join(DATA, save)))
done()
