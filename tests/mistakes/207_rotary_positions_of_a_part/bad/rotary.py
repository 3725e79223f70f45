"""Keys of a sequence that is split over the devices."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

from angles import rotate
from clock import Clock


def rotated_keys(mesh):
    spec = P(None, "seq", None)

    def body(keys):
        positions = jnp.arange(keys.shape[1])  # mistake: position-of-a-shard
        return rotate(keys, positions)

    return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec))


def main():
    clock = Clock()
    with clock.part("begin"):
        mesh = jax.make_mesh((8,), ("seq",))
    keys = np.random.default_rng(0).normal(size=(2, 32, 8)).astype(np.float32)
    got = rotated_keys(mesh)(jax.device_put(keys, NamedSharding(mesh, P(None, "seq", None))))
    print("like one device:", bool(np.allclose(got, rotate(jnp.asarray(keys), jnp.arange(32)), atol=1e-5)))
    clock.show()


if __name__ == "__main__":
    main()
