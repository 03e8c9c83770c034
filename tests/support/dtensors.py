# SPDX-License-Identifier: Apache-2.0
"""DTensors as torch.save writes them."""
import math
import struct
import sys

from torchfile import Storage, module, named, rebuild, strides

module("torch", float32=type("float32", (), {}), bfloat16=type("bfloat16", (), {}))
outer = module("torch._tensor", _rebuild_from_type_v2=lambda *a: None)._rebuild_from_type_v2
inner = module("torch._utils", _rebuild_wrapper_subclass=lambda *a: None)._rebuild_wrapper_subclass
dtensor = module("torch.distributed.tensor", DTensor=type("DTensor", (), {})).DTensor
kinds = module("torch.distributed.tensor.placement_types", Shard=type("Shard", (), {}),
               _StridedShard=type("_StridedShard", (), {}), Replicate=type("Replicate", (), {}),
               Partial=type("Partial", (), {}))
spec_class = module("torch.distributed.tensor._dtensor_spec", DTensorSpec=type("DTensorSpec", (), {})).DTensorSpec
meta_class = module("torch.distributed.tensor._dtensor_spec", TensorMeta=type("TensorMeta", (), {})).TensorMeta
mesh_class = module("torch.distributed.device_mesh", DeviceMesh=type("DeviceMesh", (), {})).DeviceMesh


def made(cls, **state):
    thing = cls()
    thing.__dict__.update(state)
    return thing


class Ranks:
    """The grid of ranks of a mesh: int64, which Tensor is not."""

    def __init__(self, shape):
        n = math.prod(shape)
        self.shape, self.storage = shape, Storage(data=struct.pack(f"<{n}q", *range(n)), n=n, cls="LongStorage")

    def __reduce__(self):
        return rebuild, (self.storage, 0, self.shape, strides(self.shape), False, None)


class DTensor:
    """`local`, the piece that the rank at `coord` of a mesh of this shape has of a tensor of `shape`."""

    def __init__(self, local, shape, mesh, coord, placements, dtype="float32"):
        self.dtype = dtype
        self.local, self.shape, self.mesh, self.coord, self.placements = local, shape, mesh, coord, placements

    def __reduce__(self):
        dtype = getattr(sys.modules["torch"], self.dtype)
        mesh = made(mesh_class, mesh=Ranks(self.mesh), _coordinate_on_dim=list(self.coord), device_type="cpu",
                    mesh_dim_names=None)
        spec = made(spec_class, mesh=mesh, placements=tuple(self.placements),
                    tensor_meta=made(meta_class, shape=self.shape, stride=strides(self.shape), dtype=dtype))
        return outer, (inner, dtensor, (dtensor, dtype, self.shape, strides(self.shape), 0, None, None, False),
                       (None, {"_local_tensor": self.local, "_spec": spec}))


def shard(dim):
    return made(kinds.Shard, dim=dim)


def strided(dim, split_factor):
    return made(kinds._StridedShard, dim=dim, split_factor=split_factor)


replicate = made(kinds.Replicate)
partial = made(kinds.Partial, reduce_op="sum")


class State:
    """A state of torchao's AdamW8bit, of float32 [rows, columns]: codes, a scale for each block, the table of their values."""

    def __init__(self, codes, shape, scale, qmap, name="OptimState8bit", dtype="float32"):
        self.shape, self.name, self.dtype = shape, name, dtype
        self.parts = {"codes": Bytes(codes, shape), "scale": scale, "qmap": qmap}

    def __reduce__(self):
        cls, dtype = named("torchao.optim.subclass_8bit", self.name), getattr(sys.modules["torch"], self.dtype)
        return outer, (inner, cls, (cls, dtype, self.shape, strides(self.shape), 0, None, None, False),
                       {**self.parts, "signed": True, "block_size": 4})


class Bytes:
    """uint8"""

    def __init__(self, data, shape):
        self.shape, self.storage = shape, Storage(data=bytes(data), n=len(data), cls="ByteStorage")

    def __reduce__(self):
        return rebuild, (self.storage, 0, self.shape, strides(self.shape), False, None)
