"""A small captioner whose weights are spread over all devices."""

import jax
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec


class Decoder(nnx.Module):
    def __init__(self, width, rngs):
        self.mix = nnx.Linear(width, 2 * width, rngs=rngs)
        self.read = nnx.Linear(2 * width, width, rngs=rngs)

    def __call__(self, features):
        return self.read(nnx.relu(self.mix(features)))


@nnx.jit
def learn(decoder, optimizer, features):
    def error(of):
        return ((of(features) - features) ** 2).mean()

    value, slopes = nnx.value_and_grad(error)(decoder)
    optimizer.update(decoder, slopes)
    return value


class Session:
    def __init__(self, width):
        self.devices = Mesh(np.array(jax.devices()), ("shards",))
        self.decoder = Decoder(width, nnx.Rngs(1))
        tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
        self.optimizer = nnx.Optimizer(self.decoder, tx, wrt=nnx.Param)  # mistake: optimizer-before-sharding
        self._spread()

    def _spread(self):
        weights = nnx.state(self.decoder, nnx.Param)

        def where(leaf):
            return NamedSharding(self.devices, PartitionSpec("shards") if leaf.ndim == 2 else PartitionSpec())

        nnx.update(self.decoder, jax.device_put(weights, jax.tree.map(where, weights)))


def examples(rows, width, steps):
    rng = np.random.default_rng(3)
    for _ in range(steps):
        yield rng.normal(size=(rows, width)).astype(np.float32)


def main():
    session = Session(64)
    moments = [leaf for leaf in jax.tree.leaves(nnx.state(session.optimizer)) if leaf.ndim == 2]
    print("moments on", len(moments[0].sharding.device_set), "devices")
    rows = NamedSharding(session.devices, PartitionSpec("shards"))
    for host in examples(16, 64, 2):
        features = jax.device_put(host, rows)
        print("loss is finite", bool(np.isfinite(learn(session.decoder, session.optimizer, features))))


if __name__ == "__main__":
    main()
