#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zerofs show of 10,000 random slices against numpy, which reads the same notation: in one process (show_many), and of some by the
program itself."""
import json
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
from stfile import save  # noqa: E402 pylint: disable=wrong-import-position
from tap import results  # noqa: E402 pylint: disable=wrong-import-position

try:
    import numpy as np
except ImportError:
    print("1..0 # SKIP no numpy")
    sys.exit(0)

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
MANY = os.path.join(os.environ.get("top_builddir", "."), "tests/cli/show_many")
SLICES = 10_000
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"}


def tensors():
    """Every type, from no axis to six of them, some without an element; all elements of a tensor differ where its type has as many."""
    rng = np.random.default_rng(37)
    shapes = [(), (1,), (23,), (9, 13), (5, 4, 7), (2, 1, 3, 2, 2), (1, 3, 1, 2, 1, 4), (0, 3), (2, 0, 3), (60, 40)]
    out = {}
    for i, shape in enumerate(shapes):
        for j, (name, kind) in enumerate(TYPES.items()):
            if (i + j) % 2 == 0:
                n = int(np.prod(shape))
                out[f"t{i}.{name.lower()}"] = (name, (rng.permutation(n) - n // 2).astype(np.int64).astype(kind).reshape(shape))
    return out


def random_slice(rng, shape):
    """A slice in numpy's notation."""
    parts = []
    for extent in shape[: rng.randint(0, len(shape))]:
        if extent and rng.random() < 0.3:
            parts.append(str(rng.randrange(-extent, extent)))
            continue
        bound = [str(rng.randint(-extent - 2, extent + 2)) if rng.random() < 0.7 else "" for _ in range(2)]
        parts.append(f"{bound[0]}:{bound[1]}{rng.choice(['', '', ':', ':1', ':2', ':-1', ':-3', f':{extent + 1}'])}")
    if rng.random() < 0.3:
        parts.insert(rng.randint(0, len(parts)), "...")
    return "[" + rng.choice([",", ", "]).join(parts) + "]" if parts else "[...]"


def as_numpy(folder):
    held = tensors()
    path = save(os.path.join(folder, "model.safetensors"), {k: (t, list(a.shape), a.tobytes()) for k, (t, a) in held.items()})
    rng = random.Random(37)
    asked = []
    for _ in range(SLICES):
        name = rng.choice(list(held))
        asked.append((name, random_slice(rng, held[name][1].shape)))
    many = subprocess.run([MANY, path], input="".join(f"{name}{text}\n" for name, text in asked), capture_output=True, text=True,
                          check=True, timeout=600)
    lines = many.stdout.splitlines()
    assert len(lines) == SLICES, (len(lines), many.stderr[:1000])
    n_refused = n_values = 0
    for k, ((name, text), line) in enumerate(zip(asked, lines)):
        array = held[name][1]
        try:
            wanted = eval(f"t{text}", {"t": array})  # numpy itself reads the notation
        except IndexError:  # an index behind "..." is one of another axis
            assert line == "exit 2", (name, text, line)
            n_refused += 1
            continue
        found = json.loads(line)
        values = np.array(found["values"], dtype=array.dtype)
        assert found["slice_shape"] == list(wanted.shape), (name, text, found["slice_shape"], wanted.shape)
        # an empty list has lost its inner axes
        assert values.size == wanted.size and (values.size == 0 or (values.shape == wanted.shape and (values == wanted).all())), (name, text)
        n_values += wanted.size
        if k % 500 == 0:
            alone = subprocess.run([ZEROFS, "show", "--json", path, name + text], capture_output=True, text=True, check=True, timeout=60)
            assert alone.stdout == line + "\n", (name, text)
    assert 0 < n_refused < SLICES // 10, n_refused
    print(f"# {n_values} values, {n_refused} refused as numpy refuses them")


with tempfile.TemporaryDirectory(prefix="zf-slices-") as scratch:
    results.run("10,000 random slices", as_numpy, scratch)
results.done()
