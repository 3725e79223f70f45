"""Trains a stack of feed-forward blocks, tensor parallel, or goes on from a checkpoint."""

import dataclasses
import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

import layout


@dataclasses.dataclass(frozen=True)
class Config:
    blocks: int = 2
    width: int = 256
    hidden: int = 2048
    data: int = 2
    steps: int = 3
    seed: int = 0
    checkpoint: str = ""


def init_train_state(config, tx, key):
    params = {}
    for number in range(config.blocks):
        up, down, key = jax.random.split(key, 3)
        params[f"block_{number}"] = {
            "up": jax.random.normal(up, (config.width, config.hidden)) / config.width**0.5,
            "down": jax.random.normal(down, (config.hidden, config.width)) / config.hidden**0.5,
        }
    return {"params": params, "opt": tx.init(params), "step": jnp.zeros((), jnp.int32)}


def forward(params, x):
    for block in params.values():
        x = x + jax.nn.gelu(x @ block["up"]) @ block["down"]
    return x


def train_step(tx, state, batch):
    def loss_fn(params):
        return jnp.mean((forward(params, batch) - batch) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(state["params"])
    updates, opt = tx.update(grads, state["opt"], state["params"])
    params = optax.apply_updates(state["params"], updates)
    return {"params": params, "opt": opt, "step": state["step"] + 1}, loss


def restore(folder, structs):
    saved = np.load(pathlib.Path(folder) / "state.npy", allow_pickle=True).item()
    return jax.tree.map(lambda leaf, struct: jax.device_put(leaf, struct.sharding), saved, structs)


def setup_state(config, mesh, tx):
    create = functools.partial(init_train_state, config, tx)
    structs, state_shardings = layout.abstract_state(config, mesh, create)
    if config.checkpoint:
        state = restore(config.checkpoint, structs)
    else:
        state = jax.jit(create, out_shardings=state_shardings)(jax.random.key(config.seed))
    return state, state_shardings


def main(config=Config()):
    mesh, tx = layout.make_mesh(config), optax.adamw(1e-3)
    state, state_shardings = setup_state(config, mesh, tx)
    kernel = state["params"]["block_0"]["up"]
    print("bytes of a kernel on the first device:", kernel.addressable_shards[0].data.nbytes)
    batch_sharding = NamedSharding(mesh, P("data"))
    step = jax.jit(functools.partial(train_step, tx), out_shardings=(state_shardings, None))
    for number in range(config.steps):
        batch = jax.random.normal(jax.random.key(number), (32, config.width))
        state, loss = step(jax.device_put(state, state_shardings), jax.device_put(batch, batch_sharding))
    return loss


if __name__ == "__main__":
    main()
