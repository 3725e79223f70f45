"""Sequence-parallel causal attention: each device has a stretch of the queries, keys and values are gathered."""
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("data", "seq"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
VOCAB, D, H, T, B = 512, 256, 4, 256, 8


@partial(jax.shard_map, mesh=mesh, in_specs=(P("data", "seq"),) * 3, out_specs=P("data", "seq"))
def attend(q, k, v):
    k = jax.lax.all_gather(k, "seq", axis=1, tiled=True)
    v = jax.lax.all_gather(v, "seq", axis=1, tiled=True)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    rows = jnp.arange(q.shape[1]) + q.shape[1] * jax.lax.axis_index("seq")
    cols = jnp.arange(k.shape[1])
    scores = jnp.where(rows[:, None] >= cols[None, :], scores, -1e30)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


def layer(p, x):
    b, t, d = x.shape
    q, k, v = (jnp.reshape(x @ p[n], (b, t, H, d // H)) for n in ("q", "k", "v"))
    x = x + jnp.reshape(attend(q, k, v), (b, t, d)) @ p["o"]
    return x + jax.nn.gelu(x @ p["up"]) @ p["down"]


def loss_fn(params, tokens, targets):
    x = params["embed"][tokens] + params["pos"]
    for p in params["layers"]:
        x = layer(p, x)
    return optax.softmax_cross_entropy_with_integer_labels(x @ params["embed"].T, targets).mean()


def init(key):
    n = lambda k, *s: jax.random.normal(k, s) * 0.02
    ke, kp, *kl = jax.random.split(key, 4)
    layers = []
    for k in kl:
        a = jax.random.split(k, 6)
        layers.append(dict(q=n(a[0], D, D), k=n(a[1], D, D), v=n(a[2], D, D), o=n(a[3], D, D), up=n(a[4], D, 4 * D), down=n(a[5], 4 * D, D)))
    return {"embed": n(ke, VOCAB, D), "pos": n(kp, T, D), "layers": layers}


def main():
    tx = optax.adam(1e-3)
    params = jax.device_put(init(jax.random.key(0)), NamedSharding(mesh, P()))
    opt = tx.init(params)

    @jax.jit
    def step(params, opt, tokens, targets):
        loss, grads = jax.value_and_grad(loss_fn)(params, tokens, targets)
        updates, opt = tx.update(grads, opt)
        return optax.apply_updates(params, updates), opt, loss

    rng = np.random.default_rng(0)
    split = NamedSharding(mesh, P("data", "seq"))
    for i in range(3):
        text = rng.integers(0, VOCAB, (B, T + 1))
        params, opt, loss = step(params, opt, jax.device_put(text[:, :-1], split), jax.device_put(text[:, 1:], split))
        print(i, float(loss))


if __name__ == "__main__":
    main()
