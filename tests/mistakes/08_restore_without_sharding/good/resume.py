"""Trains, stops and goes on."""

import argparse
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

import checkpoint
import state as state_lib


@jax.jit
def train_step(state, x):
    def loss_fn(params):
        return jnp.mean((state.apply_fn({"params": params}, x) - x) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workdir", type=Path, default=Path(tempfile.mkdtemp()))
    args = parser.parse_args()
    mesh = Mesh(jax.devices(), ("fsdp",))
    shardings = state_lib.state_shardings(mesh)
    state = jax.jit(state_lib.create, out_shardings=shardings)(jax.random.key(0))
    x = jnp.ones((8, 16))
    state, loss = train_step(state, x)
    print("loss", float(loss))
    checkpoint.save(args.workdir / "last.msgpack", state)

    state = checkpoint.restore(args.workdir / "last.msgpack", state, shardings)
    state, loss = train_step(state, x)
    kernel = state.params["Dense_0"]["kernel"]
    print("loss", float(loss))
    print(f"resumed kernel: {len(kernel.sharding.device_set)} device(s)")


if __name__ == "__main__":
    main()
