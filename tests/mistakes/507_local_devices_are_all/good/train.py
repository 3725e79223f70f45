"""Training over several processes."""
import dataclasses

import jax
import numpy as np

from cluster import join, layout, say
from data import Loader, examples
from model import init, step


@dataclasses.dataclass
class Config:
    batch_size: int = 64
    size: int = 1024
    features: int = 8
    hidden: int = 16


def shards(x, sharding):
    """A part of the batch on each device of this process, put together."""
    local_devices = jax.local_devices()
    parts = [jax.device_put(part, one) for part, one in zip(np.split(x, len(local_devices)), local_devices)]
    shape = (x.shape[0] * jax.process_count(), *x.shape[1:])
    return jax.make_array_from_single_device_arrays(shape, sharding, parts)


def main():
    join()
    config = Config()
    rows, whole = layout()
    params = jax.device_put(init(jax.random.key(0), config.features, config.hidden), whole)
    x, y = examples(config.size, config.features)
    loader = Loader(x, y, config.batch_size // jax.process_count())
    steps, value = 0, 0.0
    for one, other in loader:
        one = shards(one, rows)
        other = shards(other, rows)
        params, value = step(params, one, other)
        steps += 1
    say("steps of an epoch", steps, "loss is finite", bool(value < 10))


if __name__ == "__main__":
    main()
