"""Compares the gradients with those of one device."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from model import forward, init, step


def main():
    mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))
    params = init(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (32, 16))
    y = jnp.roll(x, 1, axis=1)
    mapped = jax.shard_map(
        step("fsdp"),
        mesh=mesh,
        in_specs=(P("fsdp"), P(), P("fsdp"), P("fsdp")),
        out_specs=(P("fsdp"), P()),
        check_vma=False,
    )
    split, whole = jax.jit(mapped)(params["split"], params["whole"], x, y)
    loss = lambda w, b: jnp.mean((forward(w, b, x) - y) ** 2)
    wanted = jax.grad(loss, argnums=(0, 1))(params["split"], params["whole"])
    factor = jnp.linalg.norm(split) / jnp.linalg.norm(wanted[0])
    other = jnp.linalg.norm(whole) / jnp.linalg.norm(wanted[1])
    print(f"gradients, of those wanted: split {factor:.1f}, whole {other:.1f} times")


if __name__ == "__main__":
    main()
