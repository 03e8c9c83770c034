# SPDX-License-Identifier: Apache-2.0
"""as/<type> against torch's .to(): every 16- and 8-bit pattern, and 10^8 random ones of float32."""
import os

import numpy as np
import torch
from safetensors.torch import save_file

from consume import CASTS, SUFFIX, bits, differs
from mount import Mount

RANDOM = 100_000_000
# A multiple of every vector's width: torch's code for the rest of a tensor makes other NaNs.
CHUNK = 10_000_000 // 64 * 64


def narrow_nan(t):
    """What zerofs(5) promises of a NaN in bf16 is that it is a quiet one; its bits vary with the processor."""
    quiet = t.view(torch.int16) & 0x7FC0 == 0x7FC0
    assert bool(quiet[t.isnan()].all()), "a NaN that is not quiet"
    return torch.where(t.isnan(), torch.full_like(t, float("nan")), t)


def compare(found, wanted, where):
    assert torch.equal(found.isnan(), wanted.isnan()), f"{where}: NaN here, none there"
    if found.dtype == torch.bfloat16 and bits(found) != bits(wanted):
        found, wanted = narrow_nan(found), narrow_nan(wanted)
    width = {2: torch.int16, 4: torch.int32}[found.element_size()]
    assert torch.equal(found.view(width), wanted.view(width)), f"{where}: {differs(found, wanted)}"


def exhaustive(mount, patterns):
    for name, t in patterns.items():
        for to, dtype in CASTS.items():
            path = os.path.join(mount, "as", to, f"{name}.{to}")
            compare(torch.from_numpy(np.fromfile(path, np.uint8)).view(dtype), t.to(dtype), f"{SUFFIX[t.dtype]} to {to}")


def random(mount, to, values):
    with open(os.path.join(mount, "as", to, f"random.{to}"), "rb", buffering=0) as f:
        for at in range(0, RANDOM, CHUNK):
            part = torch.from_numpy(values[at : at + CHUNK]).view(torch.float32)
            wanted = part.to(CASTS[to])
            found, size = bytearray(), len(part) * wanted.element_size()
            while len(found) < size:
                piece = f.read(size - len(found))
                assert piece, f"the file ends at element {at}"
                found += piece
            compare(torch.frombuffer(found, dtype=CASTS[to]), wanted, f"f32 to {to}, from {at}")
        assert not f.read(1), "the file goes on"


def run(tap, program, scratch):
    every = np.arange(65536, dtype=np.uint16)
    patterns = {
        "bf16": torch.from_numpy(every).view(torch.bfloat16),
        "f16": torch.from_numpy(every.copy()).view(torch.float16),
        "e4m3": torch.from_numpy(np.arange(256, dtype=np.uint8)).view(torch.float8_e4m3fn),
        "e5m2": torch.from_numpy(np.arange(256, dtype=np.uint8)).view(torch.float8_e5m2),
    }
    path = os.path.join(scratch, "patterns.safetensors")
    save_file(patterns, path)
    with Mount(program, path, [], scratch) as mount:
        tap.run("casts: all 8- and 16-bit patterns", exhaustive, mount, patterns)
    values = np.random.default_rng(20261121).integers(0, 2**32, RANDOM, dtype=np.uint32)
    # Subnormals, ties and infinities are rare among random patterns; begin with neighbours of each.
    edges = np.array([0, 1, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0x477FE000, 0x477FF000, 0x33000000, 0x387FC000,
                      0x7F7F8000, 0x7F7FFFFF, 0x3F808000, 0x3F818000, 0x00008000, 0x00018000], dtype=np.uint32)
    near = (edges[:, None] + np.arange(-4096, 4096, dtype=np.int64)).astype(np.uint32).reshape(-1)
    values[: len(near)], values[len(near) : 2 * len(near)] = near, near | np.uint32(0x80000000)
    path = os.path.join(scratch, "random.safetensors")
    save_file({"random": torch.from_numpy(values).view(torch.float32)}, path)
    with Mount(program, path, [], scratch) as mount:
        for to in ("bf16", "f16", "f32"):
            tap.run(f"casts: {RANDOM} float32 patterns to {to}", random, mount, to, values)
    os.unlink(path)
