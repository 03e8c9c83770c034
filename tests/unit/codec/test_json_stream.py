#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the stream reader of JSON with Python's json, which is strict where it is asked to be: same documents in, both refuse
them or both find the same values."""
import json
import math
import os
import random
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from tap import check, done  # noqa: E402 pylint: disable=wrong-import-position

DUMP = os.path.join(os.environ["top_builddir"], "tests/unit/codec/jsonin_dump")

# As in JSONTestSuite: what the grammar has, what it has not, and what it leaves open.
SOUND = [
    b"[]", b"{}", b" [ ] ", b"[[]]", b'[""]', b"[null]", b"[true,false]", b"[0]", b"[-0]", b"[-1]", b"[1.5]", b"[1e1]", b"[1E1]",
    b"[1e+1]", b"[1e-1]", b"[0e1]", b"[0.0]", b"[-0.0]", b"[123.456e78]", b"[1e-400]", b"[9223372036854775807]",
    b"[-9223372036854775808]", b"[0.1e-0001]", b"[1.000000000000000000000000000000000000000000000001]", b'["a"]', b'["\\""]',
    b'["\\\\"]', b'["\\/"]', b'["\\b\\f\\n\\r\\t"]', b'["\\u0041"]', b'["\\u00E9"]', b'["\\u20ac"]', b'["\\uFFFF"]',
    b'["\\ud83d\\ude00"]', b'["\\uDBFF\\uDFFF"]', b'["\\ud834\\uDd1e"]', b'["\\\\u0041"]', b'["/"]', b'["\x7f"]',
    '["é€😀\U0010ffff"]'.encode(), '["\u2028\u2029\ufeff"]'.encode(), '["\ud7ff\ue000\U00010000"]'.encode(), b'{"a":1}',
    b'{"a":1,"b":2}', b'{"":0}', b'{"a":{"a":{"a":[]}}}', b'{"a":[1,{"b":null}]}', b"\t[\n1\r,\t2 ]\n", b'[{},{}]', b"[1,2,3]",
    b'{"a" : 1 , "b" : [ ] }', b'["\\u0001"]', b"[" * 128 + b"]" * 128, b'["' + b"x" * 100000 + b'"]', b"[" + b"1" * 18 + b"]",
    b"[" + b"0," * 1000 + b"0]", b'{' + b",".join(b'"%d":%d' % (i, i) for i in range(300)) + b'}', b"[1." + b"3" * 5000 + b"]",
    '{"ключ":"значение","é":1}'.encode(), b'{"a\\u0062":1,"a\\u0063":2}']
UNSOUND = [
    b"", b" ", b"[", b"]", b"{", b"}", b"[]]", b"[[]", b"{}}", b"[,]", b"[,1]", b"[1,]", b"[1,,2]", b"[1 2]", b"[1:2]", b"{1:2}",
    b'{"a"}', b'{"a":}', b'{"a" 1}', b'{"a":1,}', b'{,}', b'{"a":1,,"b":2}', b'{"a":1 "b":2}', b"{a:1}", b"{'a':1}", b"['a']",
    b'["a]', b'["a\\"]', b'[a]', b"[tru]", b"[truex]", b"[True]", b"[nul]", b"[NULL]", b"[NaN]", b"[Infinity]", b"[-Infinity]",
    b"[-]", b"[+1]", b"[.5]", b"[5.]", b"[1.e1]", b"[1e]", b"[1e+]", b"[1E-]", b"[01]", b"[-01]", b"[00]", b"[0x10]", b"[1_000]",
    b"[1,000.5.5]", b"[1e1e1]", b"[1-1]", b"[--1]", b"[1+1]", b"[- 1]", b'["\\x41"]', b'["\\u004"]', b'["\\u00G1"]', b'["\\U0041"]',
    b'["\\a"]', b'["\\', b'["\\u', b'["\\u00', b'["\\', b'["\t"]', b'["\n"]', b'["\0"]', b'["\x1f"]', b'["\xff"]', b'["\x80"]',
    b'["\xc0\xaf"]', b'["\xc3"]', b'["\xe2\x82"]', b'["\xed\xa0\x80"]', b'["\xf4\x90\x80\x80"]', b'["\xf0\x80\x80\x80"]',
    b'["\xc3\x28"]', b'["\xe0\x80\x80"]', b'["\xf8\x88\x80\x80\x80"]', b"\xef\xbb\xbf[]", b"\xff\xfe[\0]\0", b"[]\0", b"\0[]",
    b"[] []", b"[]x", b"[] // c", b"/* c */[]", b"[1]#", b"\x0c[]", b"[\x0b]", b"[\xc2\xa0]", "[\u2028]".encode(), b"\xc2\x85[]",
    b"[1\0]", b"[1,\0 2]", b'{"a":1}}', b'{"a":[}]', b'[{]}', b'{"a":"b"', b'["a",', b'{"a":"b",', b"[1", b"[-", b"[1.", b"[t", b"[\\u0031]",
    b"{[]:1}", b"{null:1}", b"{\"a\":1:2}", b'{"a"::1}', b'["a"b"]', b"[1]1", b"{}\xef\xbb\xbf", b";", b"[1;2]", b"(1)", b"<[]>"]
OURS = [  # what RFC 8259 allows or leaves open, and we refuse
    (b"3", "top"), (b'"a"', "top"), (b"null", "top"), (b"-1.5", "top"), (b'{"a":1,"a":2}', "twice"), (b'{"a":1,"\\u0061":1}', "twice"),
    (b'[{"b":{"a":1,"a":1}}]', "twice"), (b'{"":1,"":2}', "twice"), (b'["\\ud800"]', "half"), (b'["\\udc00"]', "half"),
    (b'["\\ud800\\u0041"]', "half"), (b'["\\ud800\\ud800"]', "half"), (b'["\\ud800x"]', "half"), (b'["\\ud800\\n"]', "half"),
    (b'["\\udc00\\ud800"]', "half"), (b'["\\u0000"]', "NUL"), (b'{"\\u0000":1}', "NUL"), (b"[9223372036854775808]", "range"),
    (b"[-9223372036854775809]", "range"), (b"[1" + b"0" * 500 + b"]", "range"), (b"[1e309]", "infinite"), (b"[-1e999]", "infinite"),
    ('{"é":1,"\\u00e9":2}'.encode(), "twice"), ('{"😀":1,"\\ud83d\\ude00":2}'.encode(), "twice"),
    (b'{' + b",".join(b'"%d":%d' % (i % 299, i) for i in range(300)) + b'}', "twice")]


class Refused(ValueError):
    pass


def pairs(items):
    if len({k for k, _ in items}) < len(items):
        raise Refused("twice")
    return Pairs(items)


class Pairs(list):
    pass


def integer(text):
    v = int(text)
    if not -2 ** 63 <= v < 2 ** 63:
        raise Refused("range")
    return v


def real(text):
    v = float(text)
    if math.isinf(v):
        raise Refused("infinite")
    return v


def constant(_):
    raise Refused("no JSON")


def text_of(s):
    if "\0" in s:
        raise Refused("NUL")
    try:
        return "s" + s.encode().hex()
    except UnicodeEncodeError:
        raise Refused("half") from None


def render(v):
    if isinstance(v, Pairs):
        return "{" + "".join(f"{text_of(k)}:{render(x)}," for k, x in v) + "}"
    if isinstance(v, list):
        return "[" + "".join(render(x) + "," for x in v) + "]"
    if isinstance(v, str):
        return text_of(v)
    if isinstance(v, bool) or v is None:
        return {True: "t", False: "f", None: "n"}[v]
    return f"r{v:.17g}" if isinstance(v, float) else f"i{v}"


def judge(data):
    """What Python makes of it, or why it must be refused."""
    try:
        v = json.loads(data.decode("utf-8"), object_pairs_hook=pairs, parse_int=integer, parse_float=real, parse_constant=constant)
        if not isinstance(v, list):
            raise Refused("top")
        return render(v), None
    except Refused as e:
        return None, str(e)
    except (ValueError, RecursionError) as e:
        return None, f"no JSON: {e}"


def ours(documents, *how):
    data = b"".join(struct.pack("<Q", len(d)) + d for d in documents)
    out = subprocess.run([DUMP, *how], input=data, stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")
    return [(None, line.split(" ! ", 1)[1]) if " ! " in line else (line, None) for line in out[:-1]]


def differ(documents, *how):
    """The first on which the two do not agree."""
    answers = ours(documents, *how)
    if len(answers) != len(documents):
        return f"{len(answers)} answers to {len(documents)} documents"
    for d, mine in zip(documents, answers):
        theirs = judge(d)
        if mine[0] != theirs[0]:
            return f"{d[:200]!r}: {mine} and {theirs}"
    return None


def mutants(rng, n):
    """Sound documents, some with a mistake or two."""
    tokens = [b"[", b"]", b"{", b"}", b",", b":", b'"', b"\\", b"\\u", b"d83d", b"\\ude00", b"0", b"-", b".", b"e", b"true", b"null", b" ", b"\n",
              b'"a"', b'"b"', b"1", b"\xc3\xa9", b"\xff", b"\0", b"9223372036854775808"]
    short = [d for d in SOUND + UNSOUND + [d for d, _ in OURS] if len(d) < 200]
    for _ in range(n):
        d = bytearray(rng.choice(short))
        for _ in range(rng.randint(1, 3)):
            at = rng.randint(0, len(d))
            d[at:at + rng.choice((0, 0, 1, 2))] = rng.choice(tokens)
        yield bytes(d)


def main():
    for name, kind in (("sound", SOUND), ("unsound", UNSOUND), ("refused for our own reasons", [d for d, _ in OURS])):
        wrong = differ(kind)
        check(f"{len(kind)} documents, {name}", wrong is None, wrong)
        wrong = differ(kind, "pickled")
        check("and as pickled values", wrong is None, wrong)
    wrong = [d for d in SOUND if judge(d)[0] is None] + [d for d in UNSOUND if judge(d)[0] is not None]
    check("Python sees the table as it is written", not wrong, wrong)
    wrong = [(d, why, judge(d)) for d, why in OURS if judge(d)[1] != why]
    check("and refuses the last ones for the reason that is written", not wrong, wrong)
    cut = [d[:i] for d in SOUND if len(d) < 300 for i in range(len(d))]
    wrong = differ(cut)
    check(f"{len(cut)} documents that were cut", wrong is None, wrong)
    wrong = [d for d, (_, why) in zip(cut, ours(cut)) if not why and judge(d)[0] is None]
    check("each that is no document any more is refused with a sentence", not wrong, wrong)
    some = list(mutants(random.Random(7), 20000))
    wrong = differ(some)
    check(f"{len(some)} documents with mistakes", wrong is None, wrong)
    wrong = differ(some, "pickled")
    check("and as pickled values", wrong is None, wrong)
    check("some of which are sound", sum(judge(d)[0] is not None for d in some) > 500)
    done()


main()
