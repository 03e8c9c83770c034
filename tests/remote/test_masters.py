#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs to hold Megatron's masters against their weights behind an address, in requests; and what is noticed all the same."""
import os
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mkmegatron import Save  # noqa: E402 pylint: disable=wrong-import-position
from serve import Server  # noqa: E402 pylint: disable=wrong-import-position
from tap import Tap, need_addresses  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
SMALL = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "megatron/pypi_0.16.1_tp2pp2_dp_reshardable_buckets")
STACKS, LAYERS = 63, 40  # 2,520 parameters
DOUBT = "the fp32 masters do not belong to the weights"


def info(at):
    with tempfile.TemporaryDirectory() as cache:
        return subprocess.run([ZEROFS, "info", "-v", at], check=True, stdout=subprocess.PIPE, text=True, timeout=300,
                              env={**os.environ, "XDG_CACHE_HOME": cache}).stdout


def asked(root):
    """What info says of root/, the requests for shards, and how many of any were under way at once."""
    with Server(root) as server:
        server.faults["slow"] = "0.01"
        told = info(server.url)
        return told, sum(m == "GET" and path.endswith(".distcp") for m, path, _, _ in server.log), server.most_busy, len(server.log)


def mapped(told, n):
    """The states of n parameters, and no note of buffers that are not mapped."""
    return re.search(rf"/optim/exp_avg +{n} tensors", told) and "flat optimizer buffers" not in told


def fifteen_parameters():
    told, _, _, all_of_them = asked(SMALL)
    print(f"# {all_of_them} requests")
    assert mapped(told, 15), told
    assert all_of_them <= 40


def many_parameters():
    """Each place of a stack is in a block of its own."""
    with tempfile.TemporaryDirectory() as root:
        s = Save(os.path.join(root, "iter_0000007"), sparse=True)
        for i in range(STACKS):
            s.stack(f"decoder.layers.mlp.part{i}.weight", (LAYERS, 256, 128), "bfloat16")
            s.stack(f"optimizer.state.param.decoder.layers.mlp.part{i}.weight", (LAYERS, 256, 128))
        s.finish(num_layers=LAYERS)
        told, shards, at_once, _ = asked(root)
    print(f"# {shards} requests, {at_once} at once")
    assert DOUBT not in told and f" {STACKS * LAYERS} tensors" in told, told
    # At 10 ms and 16 connections 3 s are 4,800; all of them were 7,700, one after the other.
    assert shards <= 4800 and at_once >= 10, (shards, at_once)


def a_buffer():
    """The next pieces of a flat buffer are foreseen."""
    with tempfile.TemporaryDirectory() as root:
        s = Save(os.path.join(root, "iter_0000007"))
        keys = [f"decoder.layers.mlp.part{i}.weight" for i in range(8)]
        for key in keys:
            s.stack(key, (LAYERS, 64, 128), "bfloat16")
        s.buckets(keys, LAYERS)
        s.finish(num_layers=LAYERS)
        told, shards, at_once, _ = asked(root)
    print(f"# {shards} requests, {at_once} at once")
    assert mapped(told, 8 * LAYERS), told
    assert at_once >= 10, at_once


def a_layer_of_another_save():
    """However few masters are compared, some of each layer are."""
    with tempfile.TemporaryDirectory() as root:
        n, shape = 48 * 48, (LAYERS, 48, 48)
        half = struct.pack("<H", 0x3f80) * (n * LAYERS)
        wide = struct.pack("<I", 0x3f800000) * n
        for wrong in (None, 17):
            at = os.path.join(root, str(wrong))
            s = Save(os.path.join(at, "iter_0000007"), ranks=1)
            for i in range(STACKS):
                s.stack(f"decoder.layers.mlp.part{i}.weight", shape, "bfloat16", data=half)
                s.stack(f"optimizer.state.param.decoder.layers.mlp.part{i}.weight", shape,
                        data=b"".join(wide if k != wrong else struct.pack("<I", 0x40000000) * n for k in range(LAYERS)))
            s.finish(num_layers=LAYERS)
            with Server(at) as server:
                told = info(server.url)
            assert (DOUBT in told) == (wrong is not None), told


def main():
    need_addresses()
    tap = Tap()
    tap.run("fifteen parameters", fifteen_parameters)
    tap.run("thousands of parameters are a sample, many at once", many_parameters)
    tap.run("pieces of a buffer are read many at once", a_buffer)
    tap.run("a layer of another save is noticed", a_layer_of_another_save)
    tap.done()


main()
