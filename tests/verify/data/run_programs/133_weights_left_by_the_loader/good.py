"""Greedy decoding with a small llama-like model whose weights come from a numpy archive."""
import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


@dataclasses.dataclass(frozen=True)
class Config:
    vocab: int = 2048
    dim: int = 256
    heads: int = 8
    ffn: int = 1024
    layers: int = 3
    max_len: int = 64

    @property
    def head_dim(self):
        return self.dim // self.heads


def fake_archive(cfg, seed=0):
    """Stands in for np.load('weights.npz')."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return (rng.standard_normal(shape) / math.sqrt(shape[0])).astype(np.float32)

    weights = {"embed": draw(cfg.vocab, cfg.dim), "head": draw(cfg.dim, cfg.vocab)}
    for i in range(cfg.layers):
        weights[f"layers.{i}.wq"] = draw(cfg.dim, cfg.dim)
        weights[f"layers.{i}.wk"] = draw(cfg.dim, cfg.dim)
        weights[f"layers.{i}.wv"] = draw(cfg.dim, cfg.dim)
        weights[f"layers.{i}.wo"] = draw(cfg.dim, cfg.dim)
        weights[f"layers.{i}.up"] = draw(cfg.dim, cfg.ffn)
        weights[f"layers.{i}.down"] = draw(cfg.ffn, cfg.dim)
        weights[f"layers.{i}.norm"] = np.ones(cfg.dim, np.float32)
    return weights


COLUMN = ("wq", "wk", "wv", "up", "head")
ROW = ("wo", "down")


def spec_for(name):
    last = name.split(".")[-1]
    if last in COLUMN:
        return P(None, "tp")
    if last in ROW:
        return P("tp", None)
    if last == "embed":
        return P("tp", None)
    return P()


class Environment:
    def __init__(self, cfg):
        self.cfg = cfg
        self.mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("dp", "tp"))
        self.batch = NamedSharding(self.mesh, P("dp"))
        self.cache = NamedSharding(self.mesh, P("dp", "tp", None, None))

    def sharding_for(self, name):
        return NamedSharding(self.mesh, spec_for(name))

    def place_weights(self, weights, shardings):
        placed = {}
        for name, value in weights.items():
            sharding = shardings[name]
            placed[name] = jax.device_put(value, sharding)
        return placed

    def new_cache(self, batch):
        shape = (batch, self.cfg.heads, self.cfg.max_len, self.cfg.head_dim)
        make = jax.jit(lambda: jnp.zeros(shape), out_shardings=self.cache)
        return [(make(), make()) for _ in range(self.cfg.layers)]


def rms(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def block(cfg, weights, i, x, cache, pos):
    w = lambda name: weights[f"layers.{i}.{name}"]
    h = rms(x, w("norm"))
    split = lambda y: y.reshape(y.shape[0], cfg.heads, 1, cfg.head_dim)
    q, k, v = split(h @ w("wq")), split(h @ w("wk")), split(h @ w("wv"))
    keys = jax.lax.dynamic_update_slice_in_dim(cache[0], k, pos, 2)
    values = jax.lax.dynamic_update_slice_in_dim(cache[1], v, pos, 2)
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, keys) / math.sqrt(cfg.head_dim)
    scores = jnp.where(jnp.arange(cfg.max_len) <= pos, scores, -1e30)
    out = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), values)
    x = x + out.reshape(x.shape[0], cfg.dim) @ w("wo")
    return x + jax.nn.silu(rms(x, w("norm")) @ w("up")) @ w("down"), (keys, values)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=3)
def decode(cfg, weights, tokens, caches, pos):
    x = weights["embed"][tokens]
    fresh = []
    for i in range(cfg.layers):
        x, cache = block(cfg, weights, i, x, caches[i], pos)
        fresh.append(cache)
    return jnp.argmax(x @ weights["head"], -1).astype(jnp.int32), fresh


def main():
    cfg = Config()
    env = Environment(cfg)
    archive = fake_archive(cfg)
    weights = env.place_weights(archive, {name: env.sharding_for(name) for name in archive})
    tokens = jax.device_put(np.arange(16, dtype=np.int32), env.batch)
    caches = env.new_cache(16)
    for step in range(6):
        tokens, caches = decode(cfg, weights, tokens, caches, step)
    print(np.asarray(tokens))


if __name__ == "__main__":
    main()
