import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

AUTO = jax.sharding.AxisType.Auto
mesh = jax.make_mesh((8,), ("data",), axis_types=(AUTO,))


def loss_fn(params, x, y):
    return jnp.mean((jnp.tanh(x @ params["a"]) @ params["b"] - y) ** 2)


def compressed_mean(grad):
    """The mean of a gradient, sent as 8-bit integers."""
    scale = lax.pmax(jnp.abs(grad).max(), "data") / 127 + 1e-12
    whole = lax.psum(jnp.round(grad / scale).astype(jnp.int8).astype(jnp.int32), "data")
    return whole.astype(jnp.float32) * scale / lax.axis_size("data")


def gradients(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return lax.pmean(loss, "data"), jax.tree.map(compressed_mean, grads)


grads_of = jax.shard_map(gradients, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=P(), check_vma=False)


def main():
    key = jax.random.key(0)
    params = {"a": jax.random.normal(key, (128, 512)) * 0.05, "b": jax.random.normal(key, (512, 128)) * 0.05}
    params = jax.device_put(params, NamedSharding(mesh, P()))
    tx = optax.adam(1e-3)
    opt = jax.jit(tx.init, out_shardings=NamedSharding(mesh, P()))(params)

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params, opt, x, y):
        loss, grads = grads_of(params, x, y)
        updates, opt = tx.update(grads, opt)
        return optax.apply_updates(params, updates), opt, loss

    rng = np.random.default_rng(0)
    for i in range(3):
        x = rng.normal(size=(64, 128)).astype(np.float32) * (1 + np.arange(64)[:, None] / 8).astype(np.float32)
        x, y = jax.device_put((x, np.sin(x)), NamedSharding(mesh, P("data")))
        params, opt, loss = step(params, opt, x, y)
        print(i, float(loss))


if __name__ == "__main__":
    main()
