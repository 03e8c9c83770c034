#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random recipes on random tensors, against index arithmetic that is written here: patterns of einops, cuts, joins, casts and reads
that begin anywhere."""
import itertools
import json
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "format"))
from golden import Case, main  # noqa: E402 pylint: disable=wrong-import-position

SEED = int(os.environ.get("ZEROFS_SEED", "38"))
CODE = {1: ("U8", "B"), 2: ("I16", "<h"), 4: ("I32", "<i"), 8: ("I64", "<q")}


class Array:
    """A tensor as a shape and a flat list."""

    def __init__(self, shape, flat):
        self.shape, self.flat = tuple(shape), list(flat)

    def at(self, index):
        n = 0
        for i, size in zip(index, self.shape):
            n = n * size + i
        return self.flat[n]

    def made(self, shape, place):
        """The array whose element at an index is that at place(index) of this one."""
        return Array(shape, [self.at(place(i)) for i in itertools.product(*map(range, shape))])


def product(numbers):
    n = 1
    for x in numbers:
        n *= x
    return n


def rearrange(a, left, right, size):
    """left, right: lists of groups of names."""
    def place(index):
        value = {}
        for i, group in zip(index, right):
            for name in reversed(group):
                value[name] = i % size[name]
                i //= size[name]
        out = []
        for group in left:
            n = 0
            for name in group:
                n = n * size[name] + value[name]
            out.append(n)
        return out

    return a.made([product(size[n] for n in group) for group in right], place)


def cat(arrays, dim):
    shape = list(arrays[0].shape)
    shape[dim] = sum(a.shape[dim] for a in arrays)
    flat = []
    for index in itertools.product(*map(range, shape)):
        index = list(index)
        for a in arrays:
            if index[dim] < a.shape[dim]:
                flat.append(a.at(index))
                break
            index[dim] -= a.shape[dim]
    return Array(shape, flat)


def stack(arrays, dim):
    shape = list(arrays[0].shape)
    shape.insert(dim, len(arrays))
    return Array(shape, [arrays[i[dim]].at(i[:dim] + i[dim + 1:]) for i in itertools.product(*map(range, shape))])


def groups(rng, names, n):
    """names in n groups, none empty."""
    cuts = sorted(rng.sample(range(1, len(names)), n - 1)) if n > 1 else []
    return [names[a:b] for a, b in zip([0, *cuts], [*cuts, len(names)])]


def text_of(side):
    return " ".join(g[0] if len(g) == 1 else "(" + " ".join(g) + ")" for g in side)


class Made:
    """One tensor, and rules that use every element of it once."""

    def __init__(self, rng, number):
        self.rng, self.name, self.rules, self.sizes, self.want = rng, f"t{number}.w", [], {}, {}
        names = [f"n{number}{c}" for c in "abcde"[:rng.randint(1, 5)]]
        self.size = {n: rng.choice([1, 2, 3, 4, 5, 7]) for n in names}
        self.left = groups(rng, names, rng.randint(1, len(names)))
        self.bytes = rng.choice(list(CODE))
        shape = [product(self.size[n] for n in g) for g in self.left]
        bits = 8 * self.bytes
        self.array = Array(shape, [rng.getrandbits(bits) - (0 if self.bytes == 1 else 1 << bits - 1) for _ in range(product(shape))])
        order = names[:]
        rng.shuffle(order)
        self.right = groups(rng, order, rng.randint(1, len(order)))
        known = names[:]
        for g in self.left:  # one of each group may be worked out
            if rng.random() < 0.5:
                known.remove(rng.choice(g))
        self.sizes = {n: self.size[n] for n in known}
        self.pattern = f'"{text_of(self.left)} -> {text_of(self.right)}"'
        self.turned = rearrange(self.array, self.left, self.right, self.size)
        getattr(self, rng.choice(["whole", "cut", "joined"]))()

    def put(self, name, rule, array):
        self.rules.append(f"{name} <- {rule}")
        self.want[name] = (array, self.bytes)

    def whole(self):
        self.put(f"{self.name}.all", f"{self.name} {self.pattern}", self.turned)

    def pieces(self):
        """The source cut along its first axis."""
        rows = self.array.shape[0]
        at = self.rng.randint(0, rows)
        for lo, hi, text in ((0, at, f"[:{at}]"), (at, rows, f"[{at}:]")):
            yield self.array.made((hi - lo, *self.array.shape[1:]), lambda i, lo=lo: (i[0] + lo, *i[1:])), text

    def cut(self):
        for k, (part, text) in enumerate(self.pieces()):
            self.put(f"{self.name}.{k}", f"{self.name} {text}", part)

    def joined(self):
        dim = self.rng.randrange(len(self.array.shape))
        parts = list(self.pieces())
        if dim == 0:
            parts.reverse()
        elif parts[0][0].shape != parts[1][0].shape:
            return self.whole()
        sources = ", ".join(f"{self.name} {text}" for _, text in parts)
        how, join = self.rng.choice([("cat", cat), ("stack", stack)]) if parts[0][0].shape == parts[1][0].shape else ("cat", cat)
        return self.put(f"{self.name}.j", f"{how}({dim}, {sources})", join([a for a, _ in parts], dim))

    def raw(self):
        return (CODE[self.bytes][0], list(self.array.shape), b"".join(struct.pack(CODE[self.bytes][1], x) for x in self.array.flat))


def parsed(data):
    (n,) = struct.unpack_from("<Q", data)
    head = json.loads(data[8:8 + n])
    return {k: (v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in head.items() if k != "__metadata__"}


def check(seed):
    rng = random.Random(seed)
    all_made = [Made(rng, i) for i in range(rng.randint(1, 6))]
    lines = ["recipe random \"random\""]
    for m in all_made:
        lines += [f"size {n} = {v}" for n, v in m.sizes.items()]
    for m in all_made:
        lines += m.rules
    recipe = "\n".join(lines) + "\n"
    with Case() as c:
        c.safetensors("save/model.safetensors", {m.name: m.raw() for m in all_made})
        path = c.file("r.recipe", recipe.encode())
        r = c.run("recipe", None, "check", path, at="save")
        assert r.returncode == 0, f"seed {seed}: {r.stdout.decode()}{r.stderr.decode()}\n{recipe}"
        r = c.run("cat", "hf/model.safetensors", "-o", "recipe=" + path, at="save")
        assert r.returncode == 0, f"seed {seed}: {r.stderr.decode()}\n{recipe}"
        got = parsed(r.stdout)
        want = {}
        for m in all_made:
            for name, (array, size) in m.want.items():
                dtype, code = CODE[size]
                want[name] = (dtype, list(array.shape), b"".join(struct.pack(code, x) for x in array.flat))
        assert got.keys() == want.keys(), f"seed {seed}: {sorted(got)} are not {sorted(want)}"
        for name, value in want.items():
            assert got[name] == value, f"seed {seed}: {name} differs\n{recipe}"


def random_recipes_give_the_elements_of_index_arithmetic():
    for seed in range(SEED, SEED + 120):
        check(seed)


def a_transposed_tensor_larger_than_a_buffer():
    rng = random.Random(SEED)
    rows, cols = 700, 900
    data = rng.randbytes(rows * cols * 4)
    with Case() as c:
        c.safetensors("save/model.safetensors", {"w": ("F32", [rows, cols], data)})
        path = c.file("r.recipe", b'recipe t "t"\nsize h = 7\nx <- w "(h r) (c two) -> two c (r h)"\nsize two = 2\n'.replace(
            b'x <- w "(h r) (c two) -> two c (r h)"\nsize two = 2\n', b'size two = 2\nx <- w "(h r) (c two) -> two c (r h)"\n'))
        r = c.run("cat", "hf/model.safetensors", "-o", "recipe=" + path, at="save")
        assert r.returncode == 0, r.stderr.decode()
        dtype, shape, got = parsed(r.stdout)["x"]
        assert (dtype, shape) == ("F32", [2, 450, 700])
        want = bytearray()
        for two in range(2):
            for col in range(450):
                for k in range(700):
                    row = k % 7 * 100 + k // 7
                    at = (row * cols + col * 2 + two) * 4
                    want += data[at:at + 4]
        assert got == bytes(want)


main([random_recipes_give_the_elements_of_index_arithmetic, a_transposed_tensor_larger_than_a_buffer])
