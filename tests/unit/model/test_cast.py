#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Casts against Python's own conversions (struct's 'e' is IEEE half precision), for every 16-bit pattern
and for many random ones, with every build of the inner loops."""
import math
import os
import random
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from tap import results  # noqa: E402 pylint: disable=wrong-import-position

TOOL = os.path.join(os.environ.get("top_builddir", "."), "tests/unit/model/cast_tool")
RND = random.Random(7)


def cast(data, src, dst, kernels):
    done = subprocess.run([TOOL, src, dst, kernels], input=data, stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 77):
        raise SystemExit(f"Bail out! cast_tool {src} {dst} {kernels}: exit {done.returncode}")
    return None if done.returncode == 77 else done.stdout


def floats(bits):
    return struct.unpack("<%df" % len(bits), struct.pack("<%dI" % len(bits), *bits))


def half_of(x):
    """The f16 nearest to x; struct refuses what rounds beyond the largest."""
    try:
        return struct.unpack("<H", struct.pack("<e", x))[0]
    except OverflowError:
        return 0x7C00 if x > 0 else 0xFC00


def is_nan(bits):
    return bits & 0x7FFFFFFF > 0x7F800000


def bf16_of(bits):
    """The bf16 nearest to an f32, in exact arithmetic: the two neighbours, and the even one on a tie."""
    low = bits >> 16
    if bits & 0x7FFFFFFF >= 0x7F800000:
        return low
    rest = bits & 0xFFFF
    if rest > 0x8000 or (rest == 0x8000 and low & 1):
        low += 1
    return low


def some_f32():
    bits = [h << 16 for h in range(65536)]
    bits += [(h << 16) + d & 0xFFFFFFFF for h in range(0, 65536, 3) for d in (0x7FFF, 0x8000, 0x8001)]
    bits += [RND.getrandbits(32) for _ in range(60000)]
    # Round the borders of f16: subnormals, ties between them, the step to infinity.
    for h in range(0, 0x7C01):
        value = struct.unpack("<e", struct.pack("<H", h))[0] if h < 0x7C00 else 65536.0
        exact = struct.unpack("<I", struct.pack("<f", value))[0]
        bits += [max(exact - 1, 0), exact, exact + 1, exact + 0x1000, exact + 0xFFF, exact | 0x80000000]
    return bits


F8 = {"f8_e4m3": (3, 7), "f8_e5m2": (2, 15), "f8_e4m3fnuz": (3, 8), "f8_e5m2fnuz": (2, 16), "f8_e8m0": (0, 127)}


def f8_value(kind, x):
    """The value; for NaN its bits of f32, as include/zf/model/cast.h gives them."""
    frac_bits, bias = F8[kind]
    exp, frac = (x & 127) >> frac_bits, x & ((1 << frac_bits) - 1)
    if kind == "f8_e8m0":
        return 2.0 ** (x - 127) if x < 255 else 0x7F800001
    if kind.endswith("fnuz") and x == 0x80:
        return 0x7F800001
    if kind == "f8_e4m3" and x & 127 == 127:
        return 0x7FF00000 | (x & 128) << 24
    if kind == "f8_e5m2" and exp == 31:
        return 0x7FC00000 | frac << 21 | (x & 128) << 24 if frac else (-math.inf if x & 128 else math.inf)
    sign = -1.0 if x & 128 else 1.0
    if exp == 0:
        return sign * frac * 2.0 ** (1 - bias - frac_bits)
    return sign * (frac + (1 << frac_bits)) * 2.0 ** (exp - bias - frac_bits)


def f8_results(kind, x):
    """Bits of the f32, the f16 and the bf16."""
    v = f8_value(kind, x)
    if isinstance(v, int):
        return v, v >> 16 & 0x8000 | 0x7E00 | v >> 13 & 0x3FF, 0x7FC0
    return f32_bits(v), half_of(v), f32_bits(v) >> 16


def same(got, want):
    return (math.isnan(got) and math.isnan(want)) or struct.pack("<f", got) == struct.pack("<f", want)


def f16_to_f32(k):
    out = cast(struct.pack("<65536H", *range(65536)), "f16", "f32", k)
    got = struct.unpack("<65536f", out)
    bits = struct.unpack("<65536I", out)
    for h in range(65536):
        if not same(got[h], struct.unpack("<e", struct.pack("<H", h))[0]):
            return "%04x gives %r" % (h, got[h])
        if math.isnan(got[h]) and bits[h] != (h & 0x8000) << 16 | 0x7FC00000 | (h & 0x3FF) << 13:
            return "NaN %04x gives %08x" % (h, bits[h])
    return None


def bf16_to_f32(k):
    got = struct.unpack("<65536I", cast(struct.pack("<65536H", *range(65536)), "bf16", "f32", k))
    return None if got == tuple(h << 16 for h in range(65536)) else "not the upper half"


def f32_to_16(k):
    bits = some_f32()
    data = struct.pack("<%dI" % len(bits), *bits)
    half = struct.unpack("<%dH" % len(bits), cast(data, "f32", "f16", k))
    brain = struct.unpack("<%dH" % len(bits), cast(data, "f32", "bf16", k))
    for b, x, h, r in zip(bits, floats(bits), half, brain):
        nan_h = b >> 16 & 0x8000 | 0x7E00 | b >> 13 & 0x3FF
        if h != (nan_h if is_nan(b) else half_of(x)):
            return "f32 %08x gives f16 %04x" % (b, h)
        if r != (0xFFFF if is_nan(b) else bf16_of(b)):
            return "f32 %08x gives bf16 %04x" % (b, r)
    return None


def f64_to_all(k):
    values = [RND.uniform(-2, 2) * 2.0 ** RND.randint(-160, 140) for _ in range(20001)] + [0.0, -0.0, math.inf, 1e300, 1e-320]
    data = struct.pack("<%dd" % len(values), *values)
    out = cast(data, "f64", "f32", k)
    for v, got in zip(values, struct.unpack("<%df" % len(values), out)):
        try:
            want = struct.unpack("<f", struct.pack("<f", v))[0]
        except OverflowError:
            want = math.copysign(math.inf, v)
        if not same(got, want):
            return "%r gives %r" % (v, got)
    for dst in ("f16", "bf16"):
        if cast(data, "f64", dst, k) != cast(out, "f32", dst, k):
            return "f64 to %s is not the way through f32" % dst
    return None


def f8_to_all(k):
    """All bytes, those that are alike together, and in stretches that end within a vector."""
    for kind in F8:
        want = [f8_results(kind, x) for x in range(256)]
        for data in (bytes(range(256)), bytes(range(255)) * 3, b"".join(bytes([x]) * 70 for x in range(256))):
            for i, (dst, letter) in enumerate((("f32", "I"), ("f16", "H"), ("bf16", "H"))):
                got = struct.unpack("<%d%s" % (len(data), letter), cast(data, kind, dst, k))
                for x, bits in zip(data, got):
                    if bits != want[x][i]:
                        return "%s %02x gives %s %x, not %x" % (kind, x, dst, bits, want[x][i])
    return None


def f32_bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def small_to_16(k):
    """16-bit types to each other, in stretches that end within a vector."""
    for n in (65536, 65531):
        raw = struct.pack("<%dH" % n, *range(n))
        brain = struct.unpack("<%dH" % n, cast(raw, "f16", "bf16", k))
        half = struct.unpack("<%dH" % n, cast(raw, "bf16", "f16", k))
        for h, v in enumerate(struct.unpack("<%de" % n, raw)):
            if brain[h] != (0x7FC0 if math.isnan(v) else bf16_of(f32_bits(v))):
                return "f16 %04x gives bf16 %04x" % (h, brain[h])
        for h, v in enumerate(floats([h << 16 for h in range(n)])):
            nan = h & 0x8000 | 0x7E00 | h << 3 & 0x3FF
            if half[h] != (nan if math.isnan(v) else half_of(v)):
                return "bf16 %04x gives f16 %04x" % (h, half[h])
    return None


def in_any_order(k):
    """Each pattern becomes the same bits whatever is beside it in a vector; in order of number the tests above compare them."""
    half = [i * 40503 % 65536 for i in range(65536)]
    # Nearly all normal, with one of another kind here and there.
    rare = [i * 40503 % 65536 if i % 97 == 0 else 0x0400 + i % 0x7800 | (i & 1) << 15 for i in range(65536)]
    zero = [(i % 3) * 0x8000 % 0x10000 if i % 2 else 0x3C00 + i % 1000 for i in range(65536)]
    single = some_f32()
    RND.shuffle(single)
    tiny = [i * 167 % 256 for i in range(65536 + 37)]
    for kind, letter, values in [("f32", "I", single), ("bf16", "H", half)] + [("f16", "H", v) for v in (half, rare, zero)] + [(f, "B", tiny) for f in F8]:
        ordered = sorted(set(values))
        for dst, size in (("f32", 4), ("f16", 2), ("bf16", 2)):
            if dst == kind:
                continue
            out = cast(struct.pack("<%d%s" % (len(ordered), letter), *ordered), kind, dst, k)
            alone = {v: out[i * size:i * size + size] for i, v in enumerate(ordered)}
            for n in (len(values), len(values) - 13):
                if cast(struct.pack("<%d%s" % (n, letter), *values[:n]), kind, dst, k) != b"".join(map(alone.get, values[:n])):
                    return "%s to %s depends on the order" % (kind, dst)
    return None


def main():
    tests = [(t, k) for k in ("vector", "avx2", "avx512") for t in (f16_to_f32, bf16_to_f32, f32_to_16, f64_to_all, f8_to_all, small_to_16, in_any_order)]
    for test, k in tests:
        if cast(b"", "f32", "f16", k) is None:
            results.skip(f"{k} {test.__name__}", "this CPU has none")
            continue
        why = test(k)
        results.check(f"{k} {test.__name__}", why is None, why)
    results.done()


sys.exit(main())
