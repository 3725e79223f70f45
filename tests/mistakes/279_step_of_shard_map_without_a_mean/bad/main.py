"""Trains a small network and says how far the copies of its parameters are apart."""

import flax.linen as nn
import jax
import numpy as np
import optax
from jax.sharding import Mesh

from trainer import Trainer


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(32)(x))
        return nn.Dense(10)(x)


def batches(rng, count, size):
    for _ in range(count):
        yield {
            "image": rng.normal(size=(size, 64)).astype(np.float32),
            "label": rng.integers(0, 10, size=(size,)).astype(np.int32),
        }


def spread(params):
    """How many leaves differ between the first device and the others."""
    apart = 0
    for leaf in jax.tree.leaves(params):
        first, *others = (np.asarray(shard.data) for shard in leaf.addressable_shards)
        apart += any(not np.array_equal(first, other) for other in others)
    return apart


def main():
    trainer = Trainer(Net(), optax.adam(1e-2), Mesh(np.array(jax.devices()), ("batch",)))
    rng = np.random.default_rng(0)
    params, opt_state = trainer.init(jax.random.key(0), np.zeros((1, 64), np.float32))
    for batch in batches(rng, 3, 64):
        params, opt_state, metrics = trainer.step(params, opt_state, batch)
    print("parameters that differ between devices:", spread(params))


if __name__ == "__main__":
    main()
