#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes synthetic Megatron saves (torch_dist) with the standard library only.

    mkmegatron.py DIR [--layers L] [--tensors N] [--ranks TP] [--rows R] [--cols C] [--sparse] [--buckets | --weights]

N stacked weights of L layers, each with its master and two moments, rows cut among TP ranks: L * N * TP * 4
chunks.  --buckets: these are in flat buffers instead, a bucket for each layer's weight; --weights: there are none.
--sparse as in mkdcp.py.  As a module: Save, for saves of any keys and boxes."""
import argparse
import json
import os
import pickle
import types

from mkdcp import WIDTH, Checkpoint, content, save_bytes
from torchfile import named, save


class Save(Checkpoint):
    """One iteration's folder."""

    def __init__(self, folder, ranks=2, sparse=False):
        os.makedirs(folder, exist_ok=True)
        super().__init__(types.SimpleNamespace(dir=folder, torch='2.6', ranks=ranks, sparse=sparse, hollow=False,
                                               plans=False, columns=False))
        self.mcore, self.bytes = {}, {}

    def boxes(self, key, shape, boxes, dtype='float32', data=None):
        """A tensor of chunks: boxes = [(rank, start, size)].  Its bytes are in self.bytes."""
        w, chunks = self.w, []
        if not self.a.sparse:
            self.bytes[key] = data or content(key, WIDTH[dtype] * self.elements(shape))
        for rank, start, size in boxes:
            part = WIDTH[dtype] * self.elements(size) if self.a.sparse else \
                self.box_bytes(self.bytes[key], WIDTH[dtype], shape, start, size)
            at, length = self.item(rank, dtype, tuple(size), part)
            chunks.append(w.of(w.ChunkStorageMetadata, offsets=w.size(*start), sizes=w.size(*size)))
            self.storage[w.of(w.MetadataIndex, fqn=key, index=None, offset=w.size(*start))] = \
                w.of(w.StorageInfo, relative_path=self.file[rank], offset=at, length=length)
        props = w.TensorProperties.__new__(w.TensorProperties)
        props.state = (w.torch_dtype(dtype), w.strided, False, w.enum, False)
        self.state[key] = w.of(w.TensorStorageMetadata, properties=props, size=w.size(*shape), chunks=chunks)

    @staticmethod
    def box_bytes(data, width, shape, start, size):
        """The bytes of a box, C order."""
        rows = [0]
        for n, at, of in zip(shape[:-1], start, size):
            rows = [r * n + at + i for r in rows for i in range(of)]
        if not shape:
            return data
        last = [(r * shape[-1] + start[-1]) * width for r in rows]
        return b''.join(data[at:at + size[-1] * width] for at in last)

    def stack(self, key, shape, dtype='float32', axes=1, each=None, data=None):
        """Stacked along the first `axes` dimensions; the next one is cut among the ranks.  each: how many experts one
        chunk holds."""
        ranks, each = self.a.ranks, each or [1] * axes
        cells = [()]
        for n, step in zip(shape[:axes], each):
            cells = [c + (i,) for c in cells for i in range(0, n, step)]
        cut = shape[axes] // ranks if len(shape) > axes and shape[axes] % ranks == 0 else 0
        inner = [(r, (r * cut,) + (0,) * (len(shape) - axes - 1), (cut,) + tuple(shape[axes + 1:]))
                 for r in range(ranks)] if cut else [(0, (0,) * (len(shape) - axes), tuple(shape[axes:]))]
        self.boxes(key, shape, [(r, c + at, tuple(each) + of) for c in cells for r, at, of in inner], dtype, data)

    def flattened(self, key, shape, local, pieces, dtype='float32', data=None):
        """An optimizer's tensor whose local boxes are stored as ranges: pieces = [length of each range of a box]."""
        grid, n = [g // x for g, x in zip(shape, local)], 1
        for x in local:
            n *= x
        data, stored, boxes, cells = data or content(key, WIDTH[dtype] * self.elements(shape)), b'', [], [()]
        for g in grid:
            cells = [c + (i,) for c in cells for i in range(g)]
        for c in cells:
            stored += self.box_bytes(data, WIDTH[dtype], shape, [i * x for i, x in zip(c, local)], local)
            at = 0
            for i, m in enumerate(pieces):
                boxes.append((i % self.a.ranks, c + (at,), (1,) * len(grid) + (m,)))
                at += m
        self.boxes(key, tuple(grid) + (n,), boxes, dtype, stored)
        self.bytes[key] = data
        self.mcore[key] = {'nd_reformulated_orig_global_shape': tuple(shape)}

    @staticmethod
    def elements(shape):
        n = 1
        for v in shape:
            n *= v
        return n

    @staticmethod
    def wide(half):
        """bfloat16 values as float32."""
        out = bytearray(2 * len(half))
        out[2::4], out[3::4] = half[0::2], half[1::2]
        return bytes(out)

    def buckets(self, weights, layers):
        """The masters and moments of stacked bfloat16 weights in L * N buckets of one buffer, in the order of a
        backward pass; returns what each bucket's number is of: [(key, layer)]."""
        head = 'optimizer.distributed.dp_group_idx_0'
        dtype = (self.w.torch_dtype('bfloat16'), self.w.torch_dtype('float32'))
        order = [(key, layer) for layer in reversed(range(layers)) for key in reversed(weights)]
        numel = []
        for k, (key, layer) in enumerate(order):
            of = self.bytes[key]
            n = len(of) // layers
            wide = self.wide(of[layer * n:(layer + 1) * n])
            numel.append(n // 2)
            for state in ('param', 'exp_avg', 'exp_avg_sq'):
                name = f'{head}.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_{k}.{state}'
                self.boxes(name, (n // 2,), [(0, (0,), (n // 2,))], data=wide if state == 'param' else None)
        for name in ('per_bucket_numel', 'per_bucket_numel_unpadded'):
            self.object(f'{head}.{name}/shard_0_1', [{dtype: numel}])
        return order

    def object(self, key, value):
        """value: what is pickled, or the bytes of a torch.save file."""
        if isinstance(value, bytes):
            at, length = self.out[0].at, len(value)
            self.out[0].write(value)
        else:
            at, length = save_bytes(self.out[0], self.a.torch, [value])
        self.state[key] = self.w.BytesStorageMetadata()
        self.storage[self.w.of(self.w.MetadataIndex, fqn=key, index=None)] = \
            self.w.of(self.w.StorageInfo, relative_path=self.file[0], offset=at, length=length)

    def finish(self, common=None, state=None, **args):
        """Writes .metadata, common.pt and metadata.json.  state: all that common.pt holds."""
        for o in self.out:
            o.close()
        m = self.metadata()
        m.planner_data = None
        m.mcore_data = self.mcore
        with open(os.path.join(self.a.dir, '.metadata'), 'wb') as f:
            pickle.dump(m, f, 4)
        namespace = named('argparse', 'Namespace')()
        namespace.__dict__.update(args)
        save(state or {'args': namespace, 'iteration': 7, 'checkpoint_version': 3.0, **(common or {})},
             os.path.join(self.a.dir, 'common.pt'))
        with open(os.path.join(self.a.dir, 'metadata.json'), 'w', encoding='utf8') as f:
            json.dump({'sharded_backend': 'torch_dist', 'sharded_backend_version': 1}, f)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('dir')
    p.add_argument('--layers', type=int, default=4)
    p.add_argument('--tensors', type=int, default=2)
    p.add_argument('--ranks', type=int, default=2)
    p.add_argument('--rows', type=int, default=8)
    p.add_argument('--cols', type=int, default=4)
    p.add_argument('--sparse', action='store_true')
    p.add_argument('--buckets', action='store_true')
    p.add_argument('--weights', action='store_true')
    a = p.parse_args()
    c = Save(a.dir, a.ranks, a.sparse)
    keys = [f'decoder.layers.mlp.part{i}.weight' for i in range(a.tensors)]
    for key in keys:
        c.stack(key, (a.layers, a.rows, a.cols), 'bfloat16')
        for state in () if a.buckets or a.weights else ('param', 'exp_avg', 'exp_avg_sq'):
            master = c.wide(c.bytes[key]) if state == 'param' and not a.sparse else None
            c.stack(f'optimizer.state.{state}.{key}', (a.layers, a.rows, a.cols), data=master)
    if a.buckets:
        c.buckets(keys, a.layers)
    c.finish(num_layers=a.layers)


if __name__ == '__main__':
    main()
