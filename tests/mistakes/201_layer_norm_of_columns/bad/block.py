"""A block whose features are split over the devices."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

from norms import layer_norm
from clock import Clock

mesh = jax.make_mesh((2, 4), ("data", "tensor"))
FEATURES = P("data", "tensor")


@jax.jit
@jax.shard_map(mesh=mesh, in_specs=(FEATURES, P("tensor")), out_specs=FEATURES)
def block(x, scale):
    return jax.nn.gelu(layer_norm(x, scale))  # mistake: statistic-of-a-shard


def whole(x, scale):
    centred = x - x.mean(-1, keepdims=True)
    return jax.nn.gelu(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale)


def main():
    clock = Clock()
    with clock.part("begin"):
        x = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32) * np.arange(1, 17)
    scale = np.ones(16, np.float32)
    got = block(
        jax.device_put(x, NamedSharding(mesh, FEATURES)), jax.device_put(scale, NamedSharding(mesh, P("tensor")))
    )
    print("like one device:", bool(np.allclose(got, whole(jnp.asarray(x), scale), atol=1e-3)))
    clock.show()


if __name__ == "__main__":
    main()
