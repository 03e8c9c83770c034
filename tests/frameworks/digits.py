# SPDX-License-Identifier: Apache-2.0
"""`zerofs show`, `stat` and `diff` against numpy and torch: every pattern of the 8- and 16-bit types, random numbers of the
others, what numpy sums up, and what differs between random pairs."""
import json
import os
import random
import subprocess

import numpy as np
import torch
from safetensors.torch import save_file

PAIRS = 200
FLOATS = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16, torch.float32, torch.float64)
WIDTH = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def call(program, *words):
    done = subprocess.run([program, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: exit {done.returncode}: {done.stderr}"
    return done.stdout


def show(program, folder, what):
    return json.loads(call(program, "show", "--json", folder, what))


def number(x):
    return float(x) if isinstance(x, str) else x


def patterns():
    """Tensors of all bits that a small type has, and of random ones of the wider types."""
    every = np.arange(65536, dtype=np.uint16)
    out = {str(t).split(".")[1]: torch.from_numpy(every.astype(np.uint8)[:256]).view(t)
           for t in (torch.float8_e4m3fn, torch.float8_e5m2)}
    out |= {str(t).split(".")[1]: torch.from_numpy(every.copy()).view(t) for t in (torch.float16, torch.bfloat16)}
    some = np.random.default_rng(3)
    out["float32"] = torch.from_numpy(some.integers(0, 1 << 32, 20000, dtype=np.uint32)).view(torch.float32)
    out["float64"] = torch.from_numpy(some.integers(0, 1 << 64, 20000, dtype=np.uint64)).view(torch.float64)
    return out


def read_back(program, folder, tensors):
    for name, t in tensors.items():
        values = [number(v) for v in show(program, folder, name)["values"]]
        found = torch.tensor(values, dtype=torch.float64).to(t.dtype)
        nan = t.to(torch.float32).isnan() if t.dtype not in (torch.float32, torch.float64) else t.isnan()
        width = WIDTH[t.element_size()]
        bad = (found.view(width) != t.view(width)) & ~nan
        assert not bad.any(), f"{name}: {int(bad.sum())} differ, first {int(bad.nonzero()[0])}"
        assert all(np.isnan(v) == bool(n) for v, n in zip(values, nan)), f"{name}: NaN at other places"


def as_short(program, folder, tensors):
    """No more digits than numpy needs."""
    for name in ("float32", "float64"):
        array = tensors[name].numpy()
        text = call(program, "show", "--json", folder, name).split('"values":[')[1].rstrip("]}\n").split(",")
        for v, found in zip(array, text):
            if np.isfinite(v):
                wanted = np.format_float_scientific(v, unique=True, trim="-")
                digits = [len(x.split("e")[0].replace(".", "").lstrip("-").strip("0")) for x in (wanted, found)]
                assert digits[0] == digits[1], f"{name}: {found}, numpy: {wanted}"


def bits(program, folder, tensors):
    for name, t in tensors.items():
        found = json.loads(call(program, "show", "--json", "--hex", folder, name))["values"]
        wanted = t.view(WIDTH[t.element_size()]).numpy()
        assert [int(v, 16) for v in found] == (wanted.astype(np.uint64) & (2 ** (8 * t.element_size()) - 1)).tolist(), name


def sums(program, folder, tensors):
    lines = [json.loads(line) for line in call(program, "stat", "--json", folder).splitlines()]
    assert lines == [json.loads(line) for line in call(program, "stat", "--json", "-j", "7", folder).splitlines()]
    rows = {os.path.splitext(row["path"])[0]: row for row in lines}
    assert rows.keys() == tensors.keys()
    for name, t in tensors.items():
        row = rows[name]
        wide = t if t.dtype == torch.float64 or not t.is_floating_point() else t.to(torch.float32)
        a = wide.numpy()
        finite = a[np.isfinite(a)]
        assert row["elements"] == a.size, name
        counts = {"zeros": a == 0, "nan": np.isnan(a), "inf": np.isinf(a)}
        for key, mask in counts.items():
            assert row[key] == int(mask.sum()), f"{name}: {key} {row[key]}, numpy {int(mask.sum())}"
        if finite.size == 0:
            assert "min" not in row, name
            continue
        # The digits are those of the tensor's own type.
        ends = torch.tensor([row["min"], row["max"]], dtype=torch.float64).to(t.dtype) if t.is_floating_point() else [row["min"], row["max"]]
        assert [number(float(x)) for x in ends] == [float(finite.min()), float(finite.max())], f"{name}: {ends}"
        exact = finite.astype(np.longdouble)
        with np.errstate(over="ignore"):
            mean, std = float(exact.mean()), float(exact.std())
        if np.isfinite(mean) and np.isfinite(std) and np.abs(exact).max() < 1e150:
            assert abs(row["mean"] - mean) <= 1e-12 * float(np.abs(exact).mean()), f"{name}: mean {row['mean']}, numpy {mean}"
            assert abs(row["std"] - std) <= 1e-12 * std, f"{name}: std {row['std']}, numpy {std}"


def summed():
    g = torch.Generator().manual_seed(12)
    out = {f"randn_{n}": torch.randn(n, generator=g) for n in (1, 7, 8, 4095, 4096, 4097, 300_001)}
    out |= {f"shifted_{str(t).split('.')[1]}": (torch.randn(70_003, generator=g) + 40).to(t) for t in FLOATS}
    holes = torch.randn(100_000, generator=g)
    holes[::97], holes[5::1001], holes[7::2003], holes[::5] = float("nan"), float("inf"), -float("inf"), 0
    out |= {"holes": holes, "holes_bf16": holes.bfloat16(), "nothing": torch.empty(0), "all_nan": torch.full((9,), float("nan"))}
    out |= {f"ints_{str(t).split('.')[1]}": torch.randint(-100 if t != torch.uint8 else 0, 100, (50_001,), generator=g).to(t)
            for t in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)}
    out["large"] = torch.tensor([2**62 + 1, -(2**62) - 1, 0])
    return out


def pair(rng, i):
    """A tensor and another one of its shape, which differs in nothing, in a few elements, or in all; perhaps of another type."""
    g = torch.Generator().manual_seed(i)
    shape = tuple(rng.randint(1, 9) for _ in range(rng.randint(1, 3)))
    types = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
    if rng.random() < 0.2:
        a = torch.randint(-(2**40), 2**40, shape, generator=g)
        b = a.clone()
        b.view(-1)[rng.randrange(a.numel())] += rng.choice([0, 1, 2**50])
        return a, b
    a = torch.randn(shape, generator=g, dtype=torch.float64).to(rng.choice(types))
    b = a.clone() if rng.random() < 0.5 else a.to(torch.float64).to(rng.choice(types))
    for _ in range(rng.randint(0, 3)):
        b.view(-1)[rng.randrange(b.numel())] = rng.choice([0.0, -0.0, float("nan"), float("inf"), 1.5, 100.0])
    for _ in range(rng.randint(0, 2)):
        at = rng.randrange(b.numel())
        a.view(-1)[at], b.view(-1)[at] = rng.choice([(0.0, -0.0), (float("nan"), float("nan")), (float("inf"), float("inf"))])
    return a, b


def narrower(a, b):
    if a.dtype == b.dtype:
        return a.dtype
    if a.element_size() == b.element_size():
        return torch.float32
    return min(a.dtype, b.dtype, key=lambda t: torch.empty(0, dtype=t).element_size())


def differences(program, folder, _):
    rng = random.Random(8)
    pairs = {f"t{i:03}": pair(rng, i) for i in range(PAIRS)}
    paths = [os.path.join(folder, f"{side}.safetensors") for side in "ab"]
    for k, path in enumerate(paths):
        save_file({name: both[k].contiguous() for name, both in pairs.items()}, path)
    for words, rtol, atol in (([], 0, 0), (["--rtol", "0.01", "--atol", "0.25"], 0.01, 0.25)):
        done = subprocess.run([program, "diff", "--json", *words, *paths], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        found = {row.get("name"): row for row in map(json.loads, done.stdout.splitlines())}
        for name, (a, b) in pairs.items():
            t = narrower(a, b)
            x, y = (v.to(t) if v.is_floating_point() else v for v in (a, b))
            x, y = (v.to(torch.float64).numpy() if v.is_floating_point() else v.numpy() for v in (x, y))
            wanted = int((~np.isclose(x, y, rtol, atol, equal_nan=True)).sum())
            assert (found[name]["differ"] if name in found else 0) == wanted, f"{name}: {found.get(name)}, numpy: {wanted} differ"
            with np.errstate(invalid="ignore"):
                apart = np.abs(x.astype(np.longdouble) - y.astype(np.longdouble))
            apart[np.isclose(x, y, rtol, atol, equal_nan=True)] = np.nan
            if wanted and not np.isnan(apart).all():
                assert number(found[name]["most"]) == float(np.nanmax(apart)), f"{name}: {found[name]}, numpy: {np.nanmax(apart)}"
                assert found[name]["at"] == int(np.nanargmax(apart)), f"{name}: {found[name]}, numpy: {np.nanargmax(apart)}"


def run(tap, program, scratch):
    for title, tensors, judges in (
        ("every pattern", patterns(), (read_back, as_short, bits)),
        ("sums", summed(), (sums,)),
        ("pairs", {"unused": torch.zeros(1)}, (differences,)),
    ):
        folder = os.path.join(scratch, "digits-" + title.replace(" ", "-"))
        os.mkdir(folder)
        save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(folder, "model.safetensors"))
        for judge in judges:
            tap.run(f"digits: {title}, {judge.__name__}", judge, program, folder, tensors)
