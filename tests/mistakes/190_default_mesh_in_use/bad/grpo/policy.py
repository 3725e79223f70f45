from typing import Optional

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh

from meshes import make_mesh

nnx.use_eager_sharding(False)  # build_policy does it, the mesh is only known there


def _lin(i, o, spec, rngs):
    init = nnx.with_partitioning(nnx.initializers.lecun_normal(), spec)
    return nnx.Linear(i, o, use_bias=False, kernel_init=init, rngs=rngs)


class Cell(nnx.Module):
    """minimal gated recurrent layer, runs over the sequence by scan"""

    def __init__(self, dim, rngs):
        self.gates = _lin(dim, 2 * dim, (None, "tp"), rngs)
        self.mix = _lin(2 * dim, dim, ("tp", None), rngs)

    def __call__(self, x):
        g = self.gates(x)
        decay, value = jnp.split(g, 2, -1)
        decay = nnx.sigmoid(decay)

        def combine(a, b):
            return a[0] * b[0], b[0] * a[1] + b[1]

        _, h = jax.lax.associative_scan(combine, (decay, (1 - decay) * value), axis=1)
        return x + self.mix(jnp.concatenate([h, jnp.tanh(h)], -1))


class Policy(nnx.Module):
    def __init__(self, vocab, dim, depth, rngs):
        emb_init = nnx.with_partitioning(nnx.initializers.normal(0.5), ("tp", None))
        self.embed = nnx.Embed(vocab, dim, embedding_init=emb_init, rngs=rngs)
        self.cells = nnx.List([Cell(dim, rngs) for _ in range(depth)])
        self.head = _lin(dim, vocab, (None, "tp"), rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        for cell in self.cells:
            x = cell(x)
        return self.head(x)


def build_policy(vocab: int, dim: int, depth: int, seed: int = 0, mesh: Optional[Mesh] = None) -> Policy:
    """Policy with its parameters created in place, sharded over `mesh`."""
    mesh = mesh or make_mesh()

    @nnx.jit
    def create():
        policy = Policy(vocab, dim, depth, nnx.Rngs(seed))
        state = nnx.state(policy)
        nnx.update(policy, jax.lax.with_sharding_constraint(state, nnx.get_named_sharding(state, mesh)))
        return policy

    return create()
