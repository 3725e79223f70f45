import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("dp",), axis_types=(jax.sharding.AxisType.Auto,))
STEPS = 4


def loss_fn(w, x, y):
    return jnp.mean((jnp.tanh(x @ w["a"]) @ w["b"] - y) ** 2)


def accumulate(w, x, y):
    def body(total, micro):
        g = jax.grad(loss_fn)(w, *micro)
        return jax.tree.map(jnp.add, total, g), None

    zero = jax.tree.map(jnp.zeros_like, w)
    total, _ = jax.lax.scan(body, zero, (x, y))
    total = jax.lax.pmean(total, "dp")
    return jax.tree.map(lambda g: g / STEPS, total)


grads_of = jax.jit(jax.shard_map(accumulate, mesh=mesh, in_specs=(P(), P(None, "dp"), P(None, "dp")), out_specs=P(), check_vma=False))


def main():
    tx = optax.sgd(0.1, momentum=0.9)
    ka, kb = jax.random.split(jax.random.key(0))
    w = jax.device_put({"a": jax.random.normal(ka, (128, 512)) * 0.05, "b": jax.random.normal(kb, (512, 128)) * 0.05}, NamedSharding(mesh, P()))
    opt = jax.jit(tx.init, out_shardings=NamedSharding(mesh, P()))(w)
    rng = np.random.default_rng(0)
    for i in range(3):
        x = rng.normal(size=(STEPS, 64, 128)).astype(np.float32)
        xs, ys = jax.device_put((x, np.sin(x)), NamedSharding(mesh, P(None, "dp")))
        g = grads_of(w, xs, ys)
        up, opt = jax.jit(tx.update)(g, opt)
        w = jax.jit(optax.apply_updates)(w, up)
        print(i, float(loss_fn(w, xs[0], ys[0])))

if __name__ == "__main__":
    main()
