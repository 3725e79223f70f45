"""Waves on a membrane whose rows lie on several devices, with its border held."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 " + os.environ.get("XLA_FLAGS", "")

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("y",), axis_types=(jax.sharding.AxisType.Auto,))
ROWS = NamedSharding(mesh, P("y", None))
SIZE, BORDER = 1024, 3


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Membrane:
    now: jax.Array
    before: jax.Array


def held(field):
    inside = jnp.arange(SIZE)[:, None] >= BORDER
    return jnp.where(inside, field, 0.0)


def curvature(field):
    around = sum(jnp.roll(field, by, axis) for axis in (0, 1) for by in (1, -1))
    return around - 4.0 * field


@jax.jit(donate_argnums=0)
def moved(membrane):
    def step(_, membrane):
        after = held(2.0 * membrane.now - membrane.before + 0.2 * curvature(membrane.now))
        return Membrane(jax.lax.with_sharding_constraint(after, ROWS), membrane.now)

    return jax.lax.fori_loop(0, 4, step, membrane)


def main():
    y, x = np.mgrid[:SIZE, :SIZE].astype(np.float32) / SIZE - 0.5
    bump = np.exp(-50.0 * (x**2 + y**2)).astype(np.float32)
    membrane = Membrane(jax.device_put(bump, ROWS), jax.device_put(bump.copy(), ROWS))
    for _ in range(3):
        membrane = moved(membrane)
    print(f"height {float(membrane.now.max()):.4f}")


if __name__ == "__main__":
    main()
