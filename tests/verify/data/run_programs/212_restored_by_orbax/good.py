"""A denoiser is trained with all weights on every device, saved, and restored for a larger batch, split."""

import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
ROWS, WHOLE = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
SIZES = {"encode": (256, 1024), "mix": (1024, 1024), "decode": (1024, 256)}


def denoise(params, x):
    return jnp.tanh(jnp.tanh(x @ params["encode"]) @ params["mix"]) @ params["decode"]


def error(params, x):
    return jnp.mean((denoise(params, x + 0.1) - x) ** 2)


def batches(rows, number):
    for seed in range(number):
        yield jax.device_put(np.random.default_rng(seed).normal(size=(rows, 256)).astype(np.float32), ROWS)


@jax.jit
def warm_up(params, x):
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(error)(params, x))


def start(folder):
    keys = jax.random.split(jax.random.key(0), len(SIZES))
    params = {name: jax.random.normal(key, size) * 0.02 for key, (name, size) in zip(keys, SIZES.items(), strict=True)}
    params = jax.device_put(params, WHOLE)
    for x in batches(32, 2):
        params = warm_up(params, x)
    with ocp.CheckpointManager(folder) as manager:
        manager.save(0, args=ocp.args.StandardSave(params))


def resume(folder):
    shapes = {name: jax.ShapeDtypeStruct(size, jnp.float32) for name, size in SIZES.items()}
    split = jax.tree.map(lambda one: NamedSharding(mesh, P("data")), shapes)
    target = jax.tree.map(lambda one, lies: jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=lies), shapes, split)
    with ocp.CheckpointManager(folder) as manager:
        return manager.restore(0, args=ocp.args.StandardRestore(target))


def main():
    tx = optax.adam(1e-3)

    @jax.jit
    def step(params, state, x):
        loss, grads = jax.value_and_grad(error)(params, x)
        updates, state = tx.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    with tempfile.TemporaryDirectory() as folder:
        start(f"{folder}/run")
        params = resume(f"{folder}/run")
    state = tx.init(params)
    for x in batches(128, 2):
        params, state, loss = step(params, state, x)
    print(float(loss))


if __name__ == "__main__":
    main()
