#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Megatron's plain DCP saves: numbers of an optimizer become names where its masters prove whose they are, else they stay."""
import os
import pickle
import random
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, ".."), os.path.join(HERE, "../../support")]
import torchfile as tf  # noqa: E402 pylint: disable=wrong-import-position
from golden import Case, main  # noqa: E402 pylint: disable=wrong-import-position
from mkmegatron import Save  # noqa: E402 pylint: disable=wrong-import-position
from test_megatron import Tree  # noqa: E402 pylint: disable=wrong-import-position

WEIGHTS = {"embedding.weight": (8, 4), "layers.0.norm.weight": (4,), "layers.0.fc.weight": (4, 4), "layers.1.norm.weight": (4,),
           "layers.1.fc.weight": (4, 4), "frozen.weight": (4, 4), "final.weight": (4,)}
GROUPS = [["embedding.weight", "layers.0.fc.weight", "layers.1.fc.weight"], ["layers.0.norm.weight", "layers.1.norm.weight", "final.weight"]]


def number(n):
    out = 1
    for v in n:
        out *= v
    return out


class Plain(Save):
    """A state dict as torch.distributed.checkpoint flattens it, two ranks, rows cut between them."""

    def value(self, key, obj):
        data, at = tf.archive(obj, extra=[("archive/byteorder", "little"), ("archive/version", "3\n")]), self.out[0].at
        self.out[0].write(data)
        self.state[key] = self.w.BytesStorageMetadata()
        self.storage[self.w.of(self.w.MetadataIndex, fqn=key, index=None)] = \
            self.w.of(self.w.StorageInfo, relative_path=self.file[0], offset=at, length=len(data))

    def finish(self, **_):
        for o in self.out:
            o.close()
        with open(os.path.join(self.a.dir, ".metadata"), "wb") as f:
            pickle.dump(self.metadata(), f, 4)


def wide(name, rng):
    """Random masters whose low halves round away."""
    return [(rng.getrandbits(1) << 31) | (rng.randrange(100, 140) << 23) | (rng.getrandbits(7) << 16) | rng.getrandbits(15)
            for _ in range(number(WEIGHTS[name]))]


def made(folder, groups=None, ids=None, chain="", **edit):
    """ids: the numbers of states; edit: lists, what param_groups says they are; masters, name -> elements; skip, keys that are not there; weights, name -> elements;
    chains, of each group, instead of chain; order, of what there is of the parameters."""
    s, rng, groups = Plain(folder), random.Random(5), groups or GROUPS
    masters = {**{n: wide(n, rng) for n in WEIGHTS}, **edit.get("masters", {})}
    weights = {**masters, **edit.get("weights", {})}
    s.value("args", {"num_layers": 2})
    s.value("iteration", 10)
    s.value("checkpoint_version", 3.0)
    for n in WEIGHTS:
        s.stack("model." + n, WEIGHTS[n], "bfloat16", axes=0, data=struct.pack(f"<{len(weights[n])}H", *[v >> 16 for v in weights[n]]))
    at, later = 0, []
    for g, names in enumerate(groups):
        numbers = list(range(at, at + len(names))) if ids is None else ids[g]
        at += len(names)
        c, k = (edit["chains"][g], edit["chains"][:g].count(edit["chains"][g])) if "chains" in edit else (chain, g)
        s.value(f"optimizer.{c}optimizer.param_groups.{k}.params", edit["lists"][g] if "lists" in edit else numbers)
        later += [(n, numbers[i], f"optimizer.{c}", f"fp32_from_fp16_params.{k}.{i}") for i, n in enumerate(names)]
    for n, number_, stem, key in edit.get("order", list)(later):
        s.stack(stem + key, WEIGHTS[n], axes=0, data=struct.pack(f"<{len(masters[n])}I", *masters[n]))
        for state in ("exp_avg", "exp_avg_sq"):
            s.stack(f"{stem}optimizer.state.{number_}.{state}", WEIGHTS[n], axes=0)
        s.boxes(f"{stem}optimizer.state.{number_}.step", (), [(0, (), ())], data=struct.pack("<f", 10 + number_))
    for key in edit.get("skip", ()):
        del s.state[key]
        for k in [k for k in s.storage if k.fqn == key]:
            del s.storage[k]
    s.finish()
    return s, masters


def names_are_proved():
    for chain in ("", "0."):
        for ids in (None, [[7, 3, 5], [0, 1, 2]]):
            with Case() as c:
                s, masters = made(c.dir, ids=ids, chain=chain)
                t = Tree(c.dir)
                assert not t.notes, t.notes
                for g, names in enumerate(GROUPS):
                    for i, n in enumerate(names):
                        k = ids[g][i] if ids else 3 * g + i
                        t.holds("", n, struct.pack(f"<{len(masters[n])}I", *masters[n]), WEIGHTS[n])
                        t.holds("stored", n, s.bytes["model." + n])
                        for state in ("exp_avg", "exp_avg_sq", "step"):
                            t.holds("optim/" + state, n, s.bytes[f"optimizer.{chain}optimizer.state.{k}.{state}"])
                t.holds("", "frozen.weight", s.bytes["model.frozen.weight"])
                assert len(t.tensor) == 7 + 6 * 4, sorted(t.tensor)


def halves_of_a_gated_unit():
    """Megatron-FSDP cuts it in two before it saves, its states too, and says the steps of each half."""
    for steps, whole in ((("7", "7"), True), (("7", "8"), False)):
        with Case() as c:
            s = Plain(c.dir)
            for key, value in (("args", {"num_layers": 1}), ("iteration", 10), ("checkpoint_version", 3.0)):
                s.value(key, value)
            name = "decoder.layers.0.mlp.linear_fc1.weight"
            for half, step in zip("wv", steps):
                s.stack(f"model.module.{name}_{half}", (4, 3), axes=0)
                for state in ("exp_avg", "exp_avg_sq"):
                    s.stack(f"optimizer.state.module.module.{name}_{half}.{state}", (4, 3), axes=0)
                s.boxes(f"optimizer.state.module.module.{name}_{half}.step", (), [(0, (), ())], data=struct.pack("<f", float(step)))
            s.finish()
            t = Tree(c.dir)
            for state in ("exp_avg", "exp_avg_sq"):
                t.holds("optim/" + state, name, b"".join(s.bytes[f"optimizer.state.module.module.{name}_{h}.{state}"] for h in "wv"), (8, 3))
            if whole:
                t.holds("optim/step", name, struct.pack("<f", 7), ())
            names = t.names("optim/step")
            assert names == [name] * whole + [name + "_v", name + "_w"], names


def they_may_come_in_any_order():
    """Keys are in the order of the ranks' dictionaries, or sorted as texts: neither has each group's masters one after the other."""
    for how in (lambda rows: rows[::-1], lambda rows: rows[::2] + rows[1::2], lambda rows: rows[1::2] + rows[::2], lambda rows: rows[3:] + rows[:3]):
        for chains, ids in ((["", ""], None), (["0.", "1."], [[0, 1, 2], [0, 1, 2]]), (["1.", "0."], [[0, 1, 2], [0, 1, 2]])):
            with Case() as c:
                s, masters = made(c.dir, chains=chains, ids=ids, order=how)
                t = Tree(c.dir)
                assert not t.notes, t.notes
                for g, names in enumerate(GROUPS):
                    for i, n in enumerate(names):
                        k = ids[g][i] if ids else 3 * g + i
                        t.holds("", n, struct.pack(f"<{len(masters[n])}I", *masters[n]), WEIGHTS[n])
                        t.holds("optim/exp_avg", n, s.bytes[f"optimizer.{chains[g]}optimizer.state.{k}.exp_avg"])


def stays(part, **how):
    """Numbers stay, weights are the root's, and a note says why."""
    with Case() as c:
        s, _ = made(c.dir, **how)
        t = Tree(c.dir)
        assert any("not mapped to names" in n and part in n for n in t.notes), t.notes
        for n in WEIGHTS:
            t.holds("", n, s.bytes["model." + n])
        assert not t.names("stored") and not t.names("optim/param"), sorted(t.tensor)
        assert all(n[0].isdigit() for w in ("optim/exp_avg", "optim/fp32_from_fp16_params") for n in t.names(w)), sorted(t.tensor)
        return t


def names_are_not_proved():
    rng = random.Random(6)
    stays("fp32_from_fp16_params.0.1\" does not round to any", weights={"layers.0.fc.weight": wide("layers.0.fc.weight", rng)})
    stays("does not round to any", groups=[list(reversed(GROUPS[0])), GROUPS[1]])
    one = [0x3f800000] * 16
    stays("as well as \"model.", masters={n: one for n in ("layers.0.fc.weight", "layers.1.fc.weight", "frozen.weight")})
    stays("a master of a group is missing", skip=["optimizer.fp32_from_fp16_params.0.1"])
    stays("a different number of parameters", skip=["optimizer.fp32_from_fp16_params.0.2"])
    stays("no list of the group's numbers", skip=["optimizer.optimizer.param_groups.1.params"])
    stays("the same number twice", lists=[[0, 1, 2], [2, 3, 4]])
    stays("something that is not a number", lists=[[0, 1, -2], [3, 4, 5]])
    stays("a different number of parameters", lists=[[0, 1], [3, 4, 5]])


def numbers_that_cannot_be_read():
    """A list of numbers that is damaged is refused; of a degraded save, numbers stay and a note says why."""
    with Case() as c:
        s, _ = made(c.dir)
        key = "optimizer.optimizer.param_groups.1.params"
        where = next(v for k, v in s.storage.items() if k.fqn == key)
        with open(os.path.join(c.dir, where.relative_path), "r+b") as f:
            f.seek(where.offset)
            f.write(b"no pickle")
        c.refused(key)
        t = Tree(c.dir, "-d")
        assert any("not mapped to names" in n for n in t.notes), t.notes
        assert t.names("optim/exp_avg") == list("012345"), t.names("optim/exp_avg")
        for n in WEIGHTS:
            t.holds("", n, s.bytes["model." + n])


def masters_that_cannot_be_read():
    """Refused by their file; of a degraded save, numbers stay, and the note names it."""
    with Case() as c:
        s, _ = made(c.dir)
        where = next(v for k, v in s.storage.items() if k.fqn == "optimizer.fp32_from_fp16_params.0.1")
        with open(os.path.join(c.dir, where.relative_path), "r+b") as f:
            f.seek(where.offset)
            f.write(b"no archive")
        c.refused(where.relative_path, "unsupported item encoding 6e 6f 20 61")
        t = Tree(c.dir, "-d")
        assert any("not mapped to names" in n and where.relative_path in n for n in t.notes), t.notes
        assert t.names("optim/exp_avg") == list("012345"), t.names("optim/exp_avg")


def equal_norms_are_told_by_their_order():
    with Case() as c:
        one = [0x3f800000] * 4
        _, masters = made(c.dir, masters={n: one for n in GROUPS[1]})
        t = Tree(c.dir)
        assert not t.notes and set(t.names("optim/exp_avg")) == {n for g in GROUPS for n in g}, t.notes
        t.holds("", "final.weight", struct.pack("<4I", *masters["final.weight"]))


def without_masters_numbers_stay():
    with Case() as c:
        made(c.dir, skip=[f"optimizer.fp32_from_fp16_params.{g}.{i}" for g in (0, 1) for i in range(3)])
        t = Tree(c.dir)
        assert t.names("optim/exp_avg") == list("012345") and not t.notes, t.notes


def a_state_of_another_shape_keeps_its_number():
    with Case() as c:
        s, _ = made(c.dir, lists=[[3, 1, 2], [0, 4, 5]])
        t = Tree(c.dir)
        t.holds("optim/exp_avg", "0", s.bytes["optimizer.optimizer.state.0.exp_avg"])
        t.holds("optim/exp_avg", "3", s.bytes["optimizer.optimizer.state.3.exp_avg"])
        t.holds("optim/exp_avg", "layers.0.fc.weight", s.bytes["optimizer.optimizer.state.1.exp_avg"])


if __name__ == "__main__":
    main([names_are_proved, halves_of_a_gated_unit, they_may_come_in_any_order, names_are_not_proved, numbers_that_cannot_be_read, masters_that_cannot_be_read, equal_norms_are_told_by_their_order,
          without_masters_numbers_stay, a_state_of_another_shape_keeps_its_number])
