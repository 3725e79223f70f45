from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


@dataclass(frozen=True)
class Spec:
    vocab: int = 128
    dim: int = 64
    heads: int = 8
    layers: int = 2
    max_len: int = 32

    @property
    def head_dim(self):
        return self.dim // self.heads


class Cache(NamedTuple):
    k: jax.Array  # [layers, batch, max_len, heads, head_dim]
    v: jax.Array
    pos: jax.Array


def weight_specs():
    return {"emb": P(None, None), "qkv": P(None, None, None, "tp", None), "o": P(None, "tp", None, None)}


def init(key, s: Spec):
    a, b, c = jax.random.split(key, 3)
    return {
        "emb": jax.random.normal(a, (s.vocab, s.dim)) * 0.1,
        "qkv": jax.random.normal(b, (s.layers, s.dim, 3, s.heads, s.head_dim)) * s.dim**-0.5,
        "o": jax.random.normal(c, (s.layers, s.heads, s.head_dim, s.dim)) * s.dim**-0.5,
    }


def empty_cache(s: Spec, batch: int, mesh: Mesh) -> Cache:
    shape = (s.layers, batch, s.max_len, s.heads, s.head_dim)
    heads = NamedSharding(mesh, P(None, "dp", None, "tp", None))
    zeros = lambda: jnp.zeros(shape, device=heads)
    return Cache(zeros(), zeros(), jnp.zeros((), jnp.int32, device=NamedSharding(mesh, P())))


def decode_one(params, cache: Cache, token, s: Spec):
    x = params["emb"][token]
    live = jnp.arange(s.max_len) <= cache.pos
    ks, vs = [], []
    for i in range(s.layers):
        q, k, v = jnp.moveaxis(jnp.einsum("bd,dchk->bchk", x, params["qkv"][i]), 1, 0)
        kc = jax.lax.dynamic_update_index_in_dim(cache.k[i], k, cache.pos, 1)
        vc = jax.lax.dynamic_update_index_in_dim(cache.v[i], v, cache.pos, 1)
        score = jnp.einsum("bhk,blhk->bhl", q, kc) * s.head_dim**-0.5
        p = jax.nn.softmax(jnp.where(live, score, -jnp.inf), -1)
        x = x + jnp.einsum("bhl,blhk,hkd->bd", p, vc, params["o"][i])
        ks.append(kc)
        vs.append(vc)
    logits = x @ params["emb"].T
    return logits, Cache(jnp.stack(ks), jnp.stack(vs), cache.pos + 1)
