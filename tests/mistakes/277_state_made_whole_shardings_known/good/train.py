"""Trains a small network with its state over all devices."""

import functools

import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

from shard import fsdp_mesh, state_layout


def initial(widths, tx, key):
    params = {}
    for number, (rows, columns) in enumerate(zip(widths, widths[1:])):
        key, sub = jax.random.split(key)
        params[f"layer_{number}"] = {
            "kernel": jax.random.normal(sub, (rows, columns)) / rows**0.5,
            "bias": jnp.zeros((columns,)),
        }
    return {"params": params, "opt": tx.init(params), "step": jnp.zeros((), jnp.int32)}


def predict(params, x):
    for number in range(len(params)):
        layer = params[f"layer_{number}"]
        x = jax.nn.gelu(x @ layer["kernel"] + layer["bias"])
    return x


def train_step(tx, state, x):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((predict(p, x) - x) ** 2))(state["params"])
    updates, opt = tx.update(grads, state["opt"], state["params"])
    params = optax.apply_updates(state["params"], updates)
    return {"params": params, "opt": opt, "step": state["step"] + 1}, loss


def main():
    mesh, tx = fsdp_mesh(), optax.adamw(1e-3)
    init_fn = functools.partial(initial, (256, 1024, 256), tx)
    shapes = jax.eval_shape(init_fn, jax.random.key(0))
    state_sharding = state_layout(shapes, mesh)
    batch_sharding = NamedSharding(mesh, P("fsdp"))
    state = jax.jit(init_fn, out_shardings=state_sharding)(jax.random.key(0))
    first = max(shard.data.nbytes for shard in state["params"]["layer_0"]["kernel"].addressable_shards)
    print("bytes of the first kernel on one device:", first)
    step = jax.jit(
        functools.partial(train_step, tx),
        in_shardings=(state_sharding, batch_sharding),
        out_shardings=(state_sharding, None),
    )
    x = jax.device_put(jnp.ones((64, 256)), batch_sharding)
    for _ in range(3):
        state, loss = step(state, x)


if __name__ == "__main__":
    main()
