#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pickles that change a tensor once it is made, which torch.load (weights_only too) carries out: what torch 2.13 gave for
each is what must be shown here, or the file is refused."""
import collections
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from made import A, B, C, Tensor, done, expect, rebuild, refused  # noqa: E402
from torchfile import Call, archive, named, pickled  # noqa: E402

NINE = Tensor(9, 9, 9)
TWO = Tensor(1, 2)
NO_HOOKS = collections.OrderedDict()
AGAIN = "a tensor that a state changes after it was made"
SET = "a tensor that an attribute changes after it was made"


def v2(t, state=None, shape=None, strides=None, flags=None):
    """The call that makes t, and what BUILD gives it."""
    args = (t.storage, 0, shape or t.shape, strides or (1,) * len(t.shape), False, NO_HOOKS)
    return Call("torch._utils", "_rebuild_tensor_v2", *args, *([] if flags is None else [flags]), state=state)


def parameter(t, attrs=None, state=None):
    if attrs is None:
        return Call("torch._utils", "_rebuild_parameter", t, False, NO_HOOKS, state=state)
    return Call("torch._utils", "_rebuild_parameter_with_state", t, False, NO_HOOKS, attrs, state=state)


def subclass(t, attrs, cls=("torch.nn.parameter", "Parameter")):
    args = (t.storage, 0, t.shape, (1,), False, NO_HOOKS)
    return Call("torch._tensor", "_rebuild_from_type_v2", rebuild, named(*cls), args, attrs)


# ---- BUILD: Tensor.__setstate__ ------------------------------------------------------------------------

other = (NINE.storage, 0, (3,), (1,))
refused("a tensor that is set to another storage", {"m.pt": {"w": v2(A, other)}}, AGAIN)
refused("the same in three words", {"m.pt": {"w": v2(A, other[:3])}}, AGAIN)
refused("to another tensor, as torch 0.1 kept one", {"m.pt": {"w": v2(A, (NINE, 0, NO_HOOKS, False, NO_HOOKS))}}, AGAIN)
refused("a parameter that is", {"m.pt": {"w": parameter(A, state=other)}}, AGAIN)
refused("a parameter of such a tensor", {"m.pt": {"w": parameter(v2(A, other))}}, AGAIN)
expect("what torch 0.3 says of a parameter changes nothing",
       {"m.pt": {"w": Call("torch.nn.parameter", "Parameter", A, state=(True, False, NO_HOOKS))}}, {":w": A})
expect("an empty tensor that is set is that of torch 0.4",
       {"m.pt": {"w": Call("torch", "FloatTensor", state=other)}}, {":w": NINE})

# ---- attributes: _set_obj_state ------------------------------------------------------------------------

expect("the attribute `data` is what a parameter holds (bitsandbytes)",
       {"m.pt": {"w": parameter(A, {"requires_grad": False, "data": NINE})}}, {":w": NINE})
expect("of a subclass too", {"m.pt": {"w": subclass(A, {"data": NINE})}}, {":w": NINE})
expect("of one with slots", {"m.pt": {"w": subclass(A, (None, {"data": NINE}))}}, {":w": NINE})
expect("of a data that is another's", {"m.pt": {"w": subclass(A, {"data": subclass(B, {"data": NINE})})}}, {":w": NINE})
expect("others are no contents", {"m.pt": {"w": subclass(A, {"name": "x", "peer": B})}}, {":w": A})
refused("`real` writes into the tensor", {"m.pt": {"w": subclass(A, {"real": NINE})}}, SET)
refused("`imag` does", {"m.pt": {"w": parameter(A, {"imag": NINE})}}, SET)

# ---- arguments that change after the call ---------------------------------------------------------------


def grown(value, added, memo):
    """The pickle of {"s": …, …, "w": …} with a value more: that of `memo`, a regular expression for the opcode that
    memoizes a container, after opcodes have changed it."""
    pkl, storages = pickled(value)
    found = re.search(memo, pkl, re.DOTALL).group(1)
    pkl = pkl[:-2] + b"X\x04\0\0\0moreh" + found + added + pkl[-2:]
    return archive(pkl, {k: s.data for k, s in storages.items()})


sizes = [2]
expect("a shape that is a list", {"m.pt": {"s": sizes, "w": v2(TWO, shape=sizes)}}, {":w": TWO})
refused("one that is longer later", {"m.pt": grown({"s": sizes, "w": v2(TWO, shape=sizes)}, b"K\x01a", rb"sq.\]q(.)")},
        "the shape of a tensor changes")
refused("one in a torch.Size",
        {"m.pt": grown({"s": sizes, "w": v2(TWO, shape=Call("torch", "Size", sizes))}, b"K\x01a", rb"sq.\]q(.)")},
        "the shape of a tensor changes")
refused("strides that are longer later",
        {"m.pt": grown({"s": sizes, "w": v2(TWO, strides=sizes)}, b"K\x01a", rb"sq.\]q(.)")}, "the stride of a tensor changes")
flags = {}
refused("a tensor that is a negative view only later",
        {"m.pt": grown({"s": flags, "w": v2(TWO, flags=flags)}, b"X\x03\0\0\0neg\x88s", rb"sq.\}q(.)")},
        "the flags of a tensor change")
refused("an attribute that is set only later",
        {"m.pt": grown({"s": flags, "w": subclass(TWO, flags)}, b"X\x03\0\0\0fooK\x01s", rb"sq.\}q(.)")}, SET)
peers = [C]
expect("a list beside the arguments may grow",
       {"m.pt": grown({"s": peers, "w": subclass(A, {"peers": peers})}, b"K\x01a", rb"sq.\]q(.)")},
       {":w": A, ":s.0": C, ":more.0": C}, exactly=False)
done()
