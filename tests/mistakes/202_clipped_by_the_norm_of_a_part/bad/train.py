"""Data parallel training with shared out updates."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

from optimizer import SharedOut
from report import Report

mesh = jax.make_mesh((8,), ("dp",))
optimizer = SharedOut(rate=1.0, limit=1.0, axis="dp")


def loss(params, x, y):
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)


@jax.jit
@partial(jax.shard_map, mesh=mesh, in_specs=(P(), P("dp"), P("dp")), out_specs=P(), check_vma=False)
def step(params, x, y):
    return optimizer.update(params, jax.grad(loss)(params, x, y))  # mistake: statistic-of-a-shard


def main():
    rng = np.random.default_rng(1)
    rows = NamedSharding(mesh, P("dp"))
    x = jax.device_put(rng.normal(size=(64, 16)).astype(np.float32), rows)
    y = jax.device_put(100 * rng.normal(size=(64, 8)).astype(np.float32), rows)
    params = {"w": jnp.zeros((16, 8)), "b": jnp.zeros(8)}
    moved = step(params, x, y)
    length = np.sqrt(sum(float(jnp.sum(one**2)) for one in jax.tree.leaves(moved)))
    print(f"length of the step: {length:.1f}")
    Report("devices").add("all", jax.device_count()).add("of this process", jax.local_device_count()).show()


if __name__ == "__main__":
    main()
