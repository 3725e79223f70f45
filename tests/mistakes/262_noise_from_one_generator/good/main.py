"""Adds noise to the sums of clipped gradients, as private training does."""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from noise import parallel_noise


def start():
    if "COORDINATOR" in os.environ:
        jax.distributed.initialize(
            os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
        )


def clipped(grads, most=1.0):
    norm = jnp.linalg.norm(grads, axis=-1, keepdims=True)
    return jnp.sum(grads * jnp.minimum(1, most / norm), axis=0)


def main(seed=0, width=64):
    start()
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    rng = np.random.default_rng(seed)
    noise = parallel_noise(rng, (width,), mesh)
    grads = jax.random.normal(jax.random.key(1), (16, width))
    noisy = jax.jit(lambda g, n: clipped(g) + n)(grads, noise)
    noisy.block_until_ready()
    whole = multihost_utils.process_allgather(noise, tiled=True)
    if jax.process_index() == 0:
        half = width // 2
        print("noise of the hosts is", "repeated" if (whole[:half] == whole[half:]).all() else "fresh")


if __name__ == "__main__":
    main()
