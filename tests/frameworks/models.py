# SPDX-License-Identifier: Apache-2.0
"""Models small enough to train in a second, with everything that makes checkpoints hard."""
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width, bias=False)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.ln_1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """A decoder with twelve layers, so that natural and alphabetical order differ, and a tied head."""

    def __init__(self, layers=12, vocab=61, width=24, heads=3, context=16):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(context, width)
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.ln_f(x)).float()
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    @staticmethod
    def batch(generator):
        return torch.randint(0, 61, (2, 16), generator=generator)


class Odd(nn.Module):
    """Shapes that divide by nothing, a scalar, a tie, frozen parameters, buffers of three types."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.embed = nn.Embedding(7, 5)
        self.l1 = nn.Linear(5, 11)
        self.l2 = nn.Linear(11, 3, bias=False)
        self.back = nn.Linear(3, 5)
        self.norm = nn.LayerNorm(5)
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.embed.weight
        self.l2.weight.requires_grad_(False)
        self.norm.bias.requires_grad_(False)
        self.register_buffer("running", torch.linspace(-1, 1, 6))
        self.register_buffer("counter", torch.tensor(2**40 + 3))
        self.register_buffer("flags", torch.tensor([True, False, True]))
        self.register_buffer("scratch", torch.zeros(4), persistent=False)

    def forward(self, ids):
        x = self.embed(ids)
        x = self.norm(x + self.back(self.l2(torch.relu(self.l1(x)))))
        logits = (self.head(x) * self.scale).float()
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    @staticmethod
    def batch(generator):
        return torch.randint(0, 7, (3, 8), generator=generator)


def train(model, optimizer, steps=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        model(model.batch(generator)).backward()
        optimizer.step()
        optimizer.zero_grad()


def ties(model):
    """[[canonical, alias]] of parameters that are one tensor under two names."""
    first, out = {}, []
    for name, p in model.named_parameters(remove_duplicate=False):
        if id(p) in first:
            out.append([first[id(p)], name])
        first.setdefault(id(p), name)
    return out
