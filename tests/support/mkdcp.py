#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes synthetic torch.distributed.checkpoint saves with the standard library only.

    mkdcp.py DIR [--tensors N] [--ranks R] [--rows N] [--cols N] [--sparse | --hollow] [--bytes N]
             [--torch 1.13|2.6|2.14] [--protocol P] [--plans] [--columns] [--bad CASE]

Each of N float32 tensors of rows x cols is cut along its rows (or columns) into R chunks, chunk r in
__r_0.distcp.
With --sparse the data are holes in the files, so a checkpoint of terabytes takes little room; with
--hollow the items are holes altogether: quick to make, good for mounting only.
--expect writes DIR/expected.json with the SHA-256 of every tensor (not with --sparse).
--bad damages the result in one way; `--bad list` names them all."""
import argparse, collections, hashlib, json, math, os, pickle, struct, zlib

from torchfile import named, storage, strides, tensor, text

ITEM = {'1.13': ['data.pkl', 'data/0', 'version'],
        '2.6': ['data.pkl', 'byteorder', 'data/0', 'version', '.data/serialization_id'],
        '2.14': ['data.pkl', '.format_version', '.storage_alignment', 'byteorder', 'data/0', 'version',
                 '.data/serialization_id']}
FIXED = {'byteorder': b'little', 'version': b'3\n', '.format_version': b'1', '.storage_alignment': b'64',
         '.data/serialization_id': b'0' * 40}


# -- classes with the names that torch gives them ------------------------------------------------
class World:
    """The classes of one torch version."""

    def __init__(self, torch):
        old = torch == '1.13'
        dist = 'torch.distributed.' + ('_shard.checkpoint' if old else 'checkpoint')
        meta, props = dist + '.metadata', 'torch.distributed._shard.sharded_tensor.metadata' if old else dist + '.metadata'
        for n in ('Metadata', 'TensorStorageMetadata', 'BytesStorageMetadata', 'ChunkStorageMetadata', 'MetadataIndex'):
            setattr(self, n, named(meta, n))
        self.StorageInfo = named(dist + '.filesystem', '_StorageInfo')
        enum = named(props, 'MEM_FORMAT_ENCODING' if old else '_MEM_FORMAT_ENCODING',
                     __reduce__=lambda s: (type(s), (0,)))
        self.TensorProperties = named(props, 'TensorProperties', __getstate__=lambda s: s.state,
                                      __setstate__=lambda s, v: setattr(s, 'state', v))
        self.Size = named('torch', 'Size', __reduce__=lambda s: (type(s), (s.t,)))
        self.get_layout = lambda *a: None
        self.enum = enum()
        self.layout = named('torch.serialization', '_get_layout')
        self.strided = named('zerofs', 'strided', __reduce__=lambda s: (self.layout, ('torch.strided',)))()
        self.dtype = {}

    def of(self, cls, **state):
        o = cls.__new__(cls)
        o.__dict__.update(state)
        return o

    def size(self, *t):
        o = self.Size()
        o.t = tuple(t)
        return o

    def torch_dtype(self, name):
        if name not in self.dtype:
            self.dtype[name] = named('torch', name)
        return self.dtype[name]


# -- one item: a torch.save archive ---------------------------------------------------------------
STORAGE = {'float32': 'FloatStorage', 'int64': 'LongStorage', 'bfloat16': 'BFloat16Storage', 'uint8': 'ByteStorage'}
WIDTH = {'float32': 4, 'int64': 8, 'bfloat16': 2, 'uint8': 1}


def tensor_pickle(dtype, shape):
    """As torch.save writes the tensor of a chunk."""
    return text(tensor(storage('0', STORAGE[dtype], math.prod(shape)), 0, shape, strides(shape)))


class Out:
    """Writes bytes and holes to a file; remembers where it is."""

    def __init__(self, path):
        self.f, self.at = open(path, 'wb'), 0

    def write(self, b):
        self.f.seek(self.at)
        self.f.write(b)
        self.at += len(b)

    def hole(self, n):
        self.at += n

    def close(self):
        self.f.truncate(self.at)
        self.f.close()


def save_zip(out, torch, records):
    """records: name -> bytes, or a number of zero bytes that become a hole.  Returns (offset, length)."""
    base, central = out.at, b''
    for name, data in records.items():
        path, n = b'archive/' + name.encode(), data if isinstance(data, int) else len(data)
        crc = 0 if isinstance(data, int) else zlib.crc32(data)
        head = out.at - base
        pad = -(head + 30 + len(path) + 4) % 64
        out.write(struct.pack('<IHHHHHIIIHH', 0x04034b50, 0, 0x0808, 0, 0, 0, 0, 0, 0, len(path), pad + 4) + path +
                  b'FB' + struct.pack('<H', pad) + b'Z' * pad)
        out.hole(n) if isinstance(data, int) else out.write(data)
        big = n >= 2**32 - 1
        out.write(struct.pack('<IIQQ' if big else '<IIII', 0x08074b50, crc, n, n))
        wide = [n, n] * big + [head] * (head >= 2**32 - 1)  # what 32 bits do not hold, in this order
        extra = struct.pack(f'<HH{len(wide)}Q', 1, 8 * len(wide), *wide) if wide else b''
        size = 2**32 - 1 if big else n
        central += struct.pack('<IHHHHHHIIIHHHHHII', 0x02014b50, 0, 0, 0x0808, 0, 0, 0, crc, size, size, len(path),
                               len(extra), 0, 0, 0, 0, min(head, 2**32 - 1)) + path + extra
    start, count = out.at - base, len(records)
    out.write(central)
    end = out.at - base
    out.write(struct.pack('<IQHHIIQQQQ', 0x06064b50, 44, 0, 45, 0, 0, count, count, len(central), start) +
              struct.pack('<IIQI', 0x07064b50, 0, end, 1) +
              struct.pack('<IHHHHIIH', 0x06054b50, 0, 0, count, count, len(central), min(start, 2**32 - 1), 0))
    return base, out.at - base


def save_tensor(out, torch, pkl, data):
    return save_zip(out, torch, collections.OrderedDict(
        (n, pkl if n == 'data.pkl' else data if n == 'data/0' else FIXED[n]) for n in ITEM[torch]))


def save_bytes(out, torch, value):
    return save_zip(out, torch, collections.OrderedDict(
        (n, pickle.dumps(value, 2) if n == 'data.pkl' else FIXED[n]) for n in ITEM[torch] if n != 'data/0'))


# -- the checkpoint -------------------------------------------------------------------------------
def cuts(n, ranks):
    """Where torch cuts n rows for so many ranks."""
    step, out = -(-n // ranks), []
    for r in range(ranks):
        lo = min(r * step, n)
        out.append((lo, min(step, n - lo)))
    return out


def content(name, n):
    """n bytes that depend on the name."""
    block = hashlib.sha256(name.encode()).digest()
    return (block * (n // 32 + 1))[:n]


class Checkpoint:
    def __init__(self, a):
        self.a, self.w = a, World(a.torch)
        self.state, self.storage, self.planner, self.expected, self.lengths = {}, {}, {}, {}, {}
        self.out = [Out(os.path.join(a.dir, f'__{r}_0.distcp')) for r in range(a.ranks)]
        self.file = [f'__{r}_0.distcp' for r in range(a.ranks)]

    def tensor(self, path, shape, dtype='float32'):
        a, w, name = self.a, self.w, '.'.join(path)
        row = WIDTH[dtype]
        for v in shape[1:]:
            row *= v
        data = None if a.sparse else content(name, row * (shape[0] if shape else 1))
        by_column = a.columns and len(shape) == 2
        chunks, parts = [], cuts(shape[by_column], a.ranks) if shape else [(0, 1)]
        for r, (lo, n) in enumerate(parts):
            box = (shape[0], n) if by_column else (n,) + tuple(shape[1:]) if shape else ()
            start = (0, lo) if by_column else (lo,) + (0,) * (len(shape) - 1) if shape else ()
            if a.sparse:
                part = WIDTH[dtype] * shape[0] * n if by_column else row * n
            elif by_column:
                part = b''.join(data[at + lo * WIDTH[dtype]:at + (lo + n) * WIDTH[dtype]]
                                for at in range(0, len(data), row))
            else:
                part = data[lo * row:(lo + n) * row]
            at, length = self.item(r, dtype, box, part)
            if n == 0 and any(c.offsets.t == start for c in chunks):
                continue
            chunks.append(w.of(w.ChunkStorageMetadata, offsets=w.size(*start), sizes=w.size(*box)))
            key = w.of(w.MetadataIndex, fqn=name, index=len(chunks) - 1, offset=w.size(*start))
            self.storage[key] = w.of(w.StorageInfo, relative_path=self.file[r], offset=at, length=length)
        props = w.TensorProperties.__new__(w.TensorProperties)
        props.state = (w.torch_dtype(dtype), w.strided, False, w.enum, False)
        self.state[name] = w.of(w.TensorStorageMetadata, properties=props, size=w.size(*shape), chunks=chunks)
        self.planner[name] = tuple(path)
        if data is not None:
            self.expected[name] = {'dtype': dtype, 'shape': list(shape), 'sha256': hashlib.sha256(data).hexdigest()}

    def item(self, rank, dtype, box, data):
        out = self.out[rank]
        if self.a.hollow and (dtype, box) in self.lengths:
            out.hole(self.lengths[dtype, box])
            return out.at - self.lengths[dtype, box], self.lengths[dtype, box]
        at, length = save_tensor(out, self.a.torch, tensor_pickle(dtype, box), data)
        self.lengths[dtype, box] = length
        return at, length

    def bytes_item(self, path, value):
        w, name = self.w, '.'.join(map(str, path))
        at, length = save_bytes(self.out[0], self.a.torch, value)
        self.state[name] = w.BytesStorageMetadata()
        self.storage[w.of(w.MetadataIndex, fqn=name, index=None)] = \
            w.of(w.StorageInfo, relative_path=self.file[0], offset=at, length=length)
        self.planner[name] = tuple(path)

    def metadata(self):
        if getattr(self.a, 'backwards', False):
            self.storage = dict(reversed(self.storage.items()))
        m = self.w.of(self.w.Metadata, state_dict_metadata=self.state,
                      planner_data=None if self.a.torch == '1.13' else self.planner, storage_data=self.storage)
        if self.a.torch == '2.14':
            m.version = '1.0.0'
        if self.a.plans:
            m.all_local_plans = [{'items': list(self.storage.items())[r::self.a.ranks]} for r in range(self.a.ranks)]
        return m


# -- damage: name -> what is done to the checkpoint before, or to the directory after, the metadata is written
def first(c, n=0):
    return list(c.storage.items())[n]


def bad_duplicate(c):
    k, v = first(c)
    c.storage[c.w.of(type(k), **k.__dict__)] = v


def bad_overlap(c):
    t = next(iter(c.state.values()))
    t.chunks[1].offsets = c.w.size(t.chunks[1].offsets.t[0] - 1, *t.chunks[1].offsets.t[1:])
    first(c, 1)[0].offset = t.chunks[1].offsets


def bad_hole(c):
    del next(iter(c.state.values())).chunks[0]
    del c.storage[first(c)[0]]


def bad_outside(c):
    t = next(iter(c.state.values()))
    t.chunks[0].sizes = c.w.size(t.size.t[0] + 1, *t.size.t[1:])


def bad_negative(c):
    next(iter(c.state.values())).chunks[0].offsets = c.w.size(-1, 0)


def bad_huge(c):
    next(iter(c.state.values())).size = c.w.size(2**62, 2**62)


def bad_dtype(c):
    props = next(iter(c.state.values())).properties
    props.state = (c.w.torch_dtype('int32'),) + props.state[1:]


def bad_shape(c):
    t = next(iter(c.state.values()))
    chunk, size = t.chunks[0], t.size.t
    t.size = c.w.size(size[0] * size[1], 1)
    at = 0
    for ch in t.chunks:
        n = ch.sizes.t[0] * ch.sizes.t[1]
        ch.offsets, ch.sizes = c.w.size(at, 0), c.w.size(n, 1)
        at += n
    for (k, _), ch in zip([x for x in c.storage.items() if x[0].fqn == first(c)[0].fqn], t.chunks):
        k.offset = ch.offsets


def bad_wrapped(c):
    """The last item, of bytes: said to be compressed and as large as any such that is looked at while mounting."""
    info = first(c, -1)[1]
    info.length, info.transform_descriptors = 1 << 20, ['stream.zstd/1']
    os.truncate(os.path.join(c.a.dir, info.relative_path), info.offset + info.length)


BAD = {
    'missing-item': lambda c: c.storage.pop(first(c)[0]),
    'duplicate-index': bad_duplicate, 'overlap': bad_overlap, 'hole': bad_hole, 'outside': bad_outside,
    'negative': bad_negative, 'huge': bad_huge, 'dtype': bad_dtype, 'shape': bad_shape, 'wrapped': bad_wrapped,
    'beyond': lambda c: setattr(first(c)[1], 'offset', 2**40),
    'negative-offset': lambda c: setattr(first(c)[1], 'offset', -5),
    'same-item': lambda c: first(c)[1].__dict__.update(first(c, c.a.ranks)[1].__dict__),
    'path': lambda c: setattr(first(c)[1], 'relative_path', '../x.distcp'),
    'unknown-dtype': lambda c: setattr(next(iter(c.state.values())).properties, 'state', (c.w.torch_dtype('int3'),)),
    'missing-file': lambda c: os.unlink(os.path.join(c.a.dir, c.file[-1])),
    'short-file': lambda c: os.truncate(os.path.join(c.a.dir, c.file[-1]), 100),
    'no-metadata': lambda c: os.unlink(os.path.join(c.a.dir, '.metadata')),
    'encoding': None, 'truncated-item': None,
}
AFTER = ('missing-file', 'short-file', 'no-metadata')


def damage_item(c, case):
    """Spoils the first item where it stands."""
    info = first(c)[1]
    with open(os.path.join(c.a.dir, info.relative_path), 'r+b') as f:
        f.seek(info.offset if case == 'encoding' else info.offset + info.length - 22)
        f.write(b'MLF_TENS' if case == 'encoding' else b'\0' * 22)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('dir')
    p.add_argument('--tensors', type=int, default=2)
    p.add_argument('--ranks', type=int, default=2)
    p.add_argument('--rows', type=int, default=5)
    p.add_argument('--cols', type=int, default=6)
    p.add_argument('--bytes', type=int, default=0)
    p.add_argument('--torch', default='2.14', choices=ITEM)
    p.add_argument('--protocol', type=int, default=4)
    p.add_argument('--dtype', default='float32', choices=WIDTH)
    p.add_argument('--sparse', action='store_true')
    p.add_argument('--hollow', action='store_true')
    p.add_argument('--plans', action='store_true')
    p.add_argument('--columns', action='store_true')
    p.add_argument('--backwards', action='store_true', help='storage_data in the other order')
    p.add_argument('--expect', action='store_true')
    p.add_argument('--bad', default='')
    a = p.parse_args()
    a.sparse = a.sparse or a.hollow
    if a.bad == 'list':
        print('\n'.join(BAD))
        return
    os.makedirs(a.dir, exist_ok=True)
    c = Checkpoint(a)
    for i in range(a.tensors):
        c.tensor(('model', f'layers.{i}.weight'), (a.rows, a.cols), a.dtype)
    for i in range(a.bytes):
        c.bytes_item(('train', f'step{i}'), {'step': i, 'lr': 0.5})
    for o in c.out:
        o.close()
    if a.bad and a.bad not in AFTER and BAD[a.bad]:
        BAD[a.bad](c)
    with open(os.path.join(a.dir, '.metadata'), 'wb') as f:
        pickle.dump(c.metadata(), f, a.protocol)
    if a.bad in AFTER:
        BAD[a.bad](c)
    elif a.bad and not BAD[a.bad]:
        damage_item(c, a.bad)
    if a.expect:
        with open(os.path.join(a.dir, 'expected.json'), 'w') as f:
            json.dump({'container': 'model.', 'tensors': c.expected}, f)


if __name__ == '__main__':
    main()
