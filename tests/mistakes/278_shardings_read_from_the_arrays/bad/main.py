"""Makes the model and says how much of it lies on the first device."""

import jax
import numpy as np
from jax.sharding import Mesh

from state import Block, create, sample


def main():
    mesh = Mesh(np.array(jax.devices()).reshape(1, 8), ("data", "model"))
    variables, _ = create(Block(256), mesh, jax.random.key(0), sample(256))
    device = jax.devices()[0]
    held = [s.data.nbytes for x in jax.tree.leaves(variables) for s in x.addressable_shards if s.device == device]
    print("bytes on the first device:", sum(held))


if __name__ == "__main__":
    main()
