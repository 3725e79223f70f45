"""Dropout in a region with data and tensor parallelism: one key for each shard of the batch."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("dp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
D, H, RATE = 512, 2048, 0.1


def dropout(key, x):
    keep = jax.random.bernoulli(key, 1 - RATE, x.shape)
    return jnp.where(keep, x / (1 - RATE), 0)


@partial(jax.shard_map, mesh=mesh, in_specs=(P(None, "tp"), P("tp"), P("dp"), P()), out_specs=P("dp"), check_vma=False)
def mlp(up, down, x, key):
    key = jax.random.fold_in(key, jax.lax.axis_index("dp"))
    hidden_key = jax.random.fold_in(key, 1 + jax.lax.axis_index("tp"))
    h = dropout(hidden_key, jax.nn.gelu(x @ up))
    return x + jax.lax.psum(h @ down, "tp")


def loss_fn(params, x, y, key):
    for i, layer in enumerate(params):
        x = mlp(layer["up"], layer["down"], x, jax.random.fold_in(key, i))
    return jnp.mean((x - y) ** 2)


def init(key):
    return [{"up": jax.random.normal(k, (D, H)) * 0.03, "down": jax.random.normal(k, (H, D)) * 0.01} for k in jax.random.split(key, 2)]


def main():
    tx = optax.sgd(1e-2, momentum=0.9)
    put = lambda p: {"up": jax.device_put(p["up"], NamedSharding(mesh, P(None, "tp"))), "down": jax.device_put(p["down"], NamedSharding(mesh, P("tp")))}
    params = [put(p) for p in init(jax.random.key(0))]
    opt = tx.init(params)

    @jax.jit
    def step(params, opt, x, y, key):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y, key)
        updates, opt = tx.update(grads, opt)
        return optax.apply_updates(params, updates), opt, loss

    rng = np.random.default_rng(0)
    key = jax.random.key(7)
    for i in range(3):
        key, sub = jax.random.split(key)
        x = rng.normal(size=(64, D)).astype(np.float32)
        xs, ys = jax.device_put((x, -x), NamedSharding(mesh, P("dp")))
        params, opt, loss = step(params, opt, xs, ys, sub)
        print(i, float(loss))


if __name__ == "__main__":
    main()
