"""Encode one long document with the sequence split over devices."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import encoder


def document(length, width, seed=5):
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.normal(size=(length, width)), axis=0)
    return (walk / np.sqrt(np.arange(1, length + 1))[:, None]).astype(np.float32)


def main(length=128, width=32, heads=4, depth=2):
    mesh = Mesh(np.array(jax.devices()), ("seq",))
    layer = encoder.make_layer(mesh)
    stack = [encoder.init(k, width, heads) for k in jax.random.split(jax.random.key(0), depth)]
    x = jax.device_put(document(length, width), NamedSharding(mesh, P("seq")))
    for params in stack:
        x = layer(params, x)
    x = np.asarray(x)
    print("first tokens", np.round(x[1, :4], 4))
    print("middle token", np.round(x[length // 2, :4], 4))
    print(f"norm {np.linalg.norm(x):.4f} mean {x.mean():+.5f}")


if __name__ == "__main__":
    main()
