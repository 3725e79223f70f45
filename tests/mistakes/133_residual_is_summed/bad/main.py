"""Runs a stack of blocks, and tells how large its output is."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

from mixer import Mixer, init


def main(depth=3, width=16, hidden=64):
    mixer = Mixer(Mesh(np.array(jax.devices()), ("tp",)))
    layers = [init(key, width, hidden) for key in jax.random.split(jax.random.key(0), depth)]
    layers = [
        {name: jax.device_put(x, NamedSharding(mixer.mesh, mixer.specs()[name])) for name, x in layer.items()}
        for layer in layers
    ]

    @jax.jit
    def forward(layers, x):
        for layer in layers:
            x = mixer(layer, x)
        return x

    x = jax.random.normal(jax.random.key(1), (4, width))
    print(f"norm {float(jnp.linalg.norm(forward(layers, x))):.2f}")


if __name__ == "__main__":
    main()
