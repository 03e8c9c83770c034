#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Questions about tensors' names and bytes, and the places where settings are looked for."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "format"))
from golden import Case, main  # noqa: E402 pylint: disable=wrong-import-position
from megatron import numbered  # noqa: E402 pylint: disable=wrong-import-position


def answers(names, *questions):
    """Each question's answer, by a recipe of which it is a check."""
    with Case() as c:
        c.safetensors("save/model.safetensors", {n: numbered([4], i) for i, n in enumerate(names)})
        said = []
        for q in questions:
            path = c.file("q.recipe", f'check ({q}) == "x" "answer"\n* <- *\n'.encode())
            r = c.run("recipe", None, "check", path, at="save")
            text = r.stdout.decode()
            assert r.returncode == 1 and "answer: " in text, text + r.stderr.decode()
            said.append(text.split("answer: ")[1].split(" and ")[0])
        return said


def names_are_found_in_whatever_order_they_are():
    plain = ["l.2.a", "l.9.a", "l.10.a", "l.10.b", "l.100.a", "m.weight", "a_b._c"]
    padded = ["l.2.a", "l.9.a", "l.010.a", "l.10.b", "l.100.a", "m.weight", "a_b._c"]
    wrapped = ["_orig_mod." + n for n in plain]
    questions = ("has(l.1*)", "has(l.10.*)", "has(l.1.*)", "has(l.3*)", "has(l.*)", "has(m*)", "has(n*)", "has(a*)", "has(l.9.a)", "has(l.10.c)",
                 "has(l.10.a)")
    want = ["true", "true", "false", "false", "true", "true", "false", "true", "true", "false"]
    assert answers(plain, *questions) == want + ["true"]
    assert answers(wrapped, *questions) == want + ["true"]
    assert answers(padded, *questions) == want + ["false"]
    assert answers(["l.00.a", "l.0.b", "l.1.a"], "has(l.0.*)", "has(l.00.*)", "count(l.{i}.*)") == ["true", "true", "2"]


def tensors_are_compared_wholly_or_that_is_not_said():
    """Two that differ in one byte, in none of the places that are looked at."""
    n = 2 << 20  # elements: 8 MiB, looked at every 128 KiB
    one = bytearray(4 * n)
    two = bytearray(one)
    two[100 << 10] = 1
    assert b"".join(two[k:k + (64 << 10)] for k in range(0, 4 * n, 128 << 10)).count(0) == 2 * n
    t = {"a": ("F32", [n], bytes(one)), "b": ("F32", [n], bytes(two)), "c": ("F32", [n], bytes(one)), "d": ("F32", [n // 2, 2], bytes(one)), "e": numbered([3], 1)}
    with Case() as c:
        c.safetensors("save/model.safetensors", t)
        for limit, want in (("64M", {"same(a, b)": "false", "alike(a, b)": "true", "same(a, c)": "true", "same(a, d)": "false", "same(a, x)": "false", "zero(a)": "true",
                                     "zero(b)": "false", "zero(e)": "false", "same(a, e)": "false", "alike(a, e)": "false", "alike(a, d)": "false"}),
                            ("4M", {"same(a, b)": "null", "alike(a, b)": "true", "same(a, c)": "null", "same(a, d)": "false", "zero(b)": "null", "zero(e)": "false"})):
            for q, answer in want.items():
                path = c.file("q.recipe", f'check ({q}) == "x" "answer"\n* <- *\n'.encode())
                said = c.run("recipe", None, "check", path, "--limit", "compare_bytes=" + limit, at="save").stdout.decode()
                assert f"answer: {answer} and" in said, (q, limit, said)


main([tensors_are_compared_wholly_or_that_is_not_said, names_are_found_in_whatever_order_they_are])
