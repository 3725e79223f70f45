"""Context parallel attention with rotary positions."""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

B, T, H, K = 4, 512, 8, 64
mesh = jax.make_mesh((8,), ("ctx",))


def rotary(x, positions):
    freqs = 1e4 ** (-jnp.arange(0, K, 2) / K)
    angles = positions[:, None] * freqs
    sin, cos = jnp.sin(angles)[None, :, None], jnp.cos(angles)[None, :, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


@partial(jax.shard_map, mesh=mesh, in_specs=(P(None, "ctx"), P(), P()), out_specs=P(None, "ctx"))
def attention(x, wqkv, wo):
    b, t, _ = x.shape
    q, k, v = jnp.split((x @ wqkv).reshape(b, t, H, 3 * K), 3, -1)
    positions = jnp.arange(t)  # here
    q, k = rotary(q, positions), rotary(k, positions)
    k = lax.all_gather(k, "ctx", axis=1, tiled=True)
    v = lax.all_gather(v, "ctx", axis=1, tiled=True)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / K**0.5
    out = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)
    return out.reshape(b, t, H * K) @ wo


def model(params, x):
    for layer in params:
        x = x + attention(x, layer["qkv"], layer["o"])
    return x


key = jax.random.key(0)
params = [
    {
        "qkv": jax.random.normal(jax.random.fold_in(key, 2 * i), (H * K, 3 * H * K)) * 0.02,
        "o": jax.random.normal(jax.random.fold_in(key, 2 * i + 1), (H * K, H * K)) * 0.02,
    }
    for i in range(2)
]
params = jax.device_put(params, NamedSharding(mesh, P()))


@jax.jit
def step(params, x, y):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((model(p, x) - y) ** 2))(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


for i in range(3):
    x = jax.random.normal(jax.random.fold_in(key, 100 + i), (B, T, H * K))
    x = jax.device_put(x, NamedSharding(mesh, P(None, "ctx")))
    params, loss = step(params, x, jnp.roll(x, 1, 0))
    print(i, loss)
