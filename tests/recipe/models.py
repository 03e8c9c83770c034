# SPDX-License-Identifier: Apache-2.0
"""Small models by their trainer's names, each number of which is another one, and what hf/ must hold of them."""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "format"))
from golden import Case  # noqa: E402 pylint: disable=wrong-import-position
from megatron import numbered  # noqa: E402 pylint: disable=wrong-import-position


class Save(Case):
    """model: the tensors of hf/ as (shape, bytes)."""

    def model(self, *opts, at="save"):
        r = self.run("cat", "hf/model.safetensors", *opts, at=at)
        assert r.returncode == 0, r.stderr.decode()
        (n,) = struct.unpack_from("<Q", r.stdout)
        return {k: (v["shape"], r.stdout[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
                for k, v in json.loads(r.stdout[8:8 + n]).items() if k != "__metadata__"}

    def config(self, *opts, at="save"):
        r = self.run("cat", "hf/config.json", *opts, at=at)
        assert r.returncode == 0, r.stderr.decode()
        return json.loads(r.stdout)

    def holds(self, m, architecture, *opts, at="save", **fields):
        """hf/ is the model m, and config.json has these fields."""
        got = self.model(*opts, at=at)
        assert got.keys() == m.want.keys(), sorted(got.keys() ^ m.want.keys())
        for name, t in m.want.items():
            assert got[name] == t, name
        config = self.config(*opts, at=at)
        fields["architectures"] = [architecture]
        assert {k: config.get(k) for k in fields} == fields, config

    def filled(self, side, lacks, *opts, at="save"):
        """hf/config.json is side's, with what it lacks and the settings or tensors say."""
        assert self.config(*opts, at=at) == {**side, **lacks}, self.config(*opts, at=at)


def needs_a_tied_head(m, file, settings, architecture, kind):
    """The settings say that the head is the embedding; Hugging Face's class makes a new one, of random numbers, where config.json does not."""
    for said in (True, False, None):
        with Save() as c:
            c.safetensors("save/model.safetensors", m.save)
            c.file("save/" + file, settings)
            side = {"model_type": kind, "architectures": [architecture], "tie_word_embeddings": said}
            c.file("side/config.json", {k: v for k, v in side.items() if v is not None})
            opts = ("-o", "side=" + os.path.join(c.dir, "side"))
            if said:
                c.holds(m, architecture, *opts)
            else:
                c.told(f"hf/ is not the model {architecture}", "config.json does not say that the head is the embedding" if said is None else "tie_word_embeddings is true in the checkpoint",
                       at="save", opts=opts)
                assert "model.embed_tokens.weight" not in c.model(*opts)


class Numbers:
    """Tensors by the trainer's names, and what hf/ must hold."""

    def __init__(self):
        self.save, self.want, self.next = {}, {}, 0

    def put(self, name, shape, target=None, parts=None, rows=None, pick=None):
        """parts: targets that are equal slices of the first dimension; rows: {target: how many rows of it, in turn};
        pick: the rows of the target, each by its number."""
        t = numbered(shape, self.next)
        self.next += len(t[2]) // 4
        self.save[name] = t
        width = len(t[2]) // shape[0]
        if target:
            of = range(shape[0]) if pick is None else pick
            self.want[target] = ([len(of), *shape[1:]], b"".join(t[2][width * r:width * (r + 1)] for r in of))
        for k, p in enumerate(parts or ()):
            n = len(t[2]) // len(parts)
            self.want[p] = (list(shape[1:]), t[2][k * n:(k + 1) * n])
        at = 0
        for p, n in (rows or {}).items():
            self.want[p] = ([n, *shape[1:]], t[2][width * at:width * (at + n)])
            at += n

    def turned(self, name, shape, target):
        """As put, of a matrix whose target is transposed."""
        self.put(name, shape)
        cells = [self.save[name][2][4 * k:4 * k + 4] for k in range(shape[0] * shape[1])]
        self.want[target] = ([shape[1], shape[0]], b"".join(cells[r * shape[1] + c] for c in range(shape[1]) for r in range(shape[0])))

    def copy(self, name, of):
        """Another tensor with the same elements, of which hf/ has none."""
        self.save[name] = self.save[of]
