"""Training over several processes."""
import dataclasses

import jax

from cluster import join, layout, say
from data import Loader, examples
from model import init, step


@dataclasses.dataclass
class Config:
    batch_size: int = 64
    size: int = 1024
    features: int = 8
    hidden: int = 16


def shares(batch_size):
    """Examples of a device, and of this process."""
    if batch_size % jax.device_count():
        raise ValueError(f"{batch_size} examples on {jax.device_count()} devices")
    each = batch_size // jax.local_device_count()  # mistake: local-and-global-counts
    return each, each * jax.local_device_count()


def main():
    join()
    config = Config()
    rows, whole = layout()
    params = jax.device_put(init(jax.random.key(0), config.features, config.hidden), whole)
    x, y = examples(config.size, config.features)
    each, mine = shares(config.batch_size)
    say("examples on a device", each)
    loader = Loader(x, y, mine)
    steps, value = 0, 0.0
    for one, other in loader:
        one = jax.make_array_from_process_local_data(rows, one)
        other = jax.make_array_from_process_local_data(rows, other)
        params, value = step(params, one, other)
        steps += 1
    say("steps of an epoch", steps, "loss is finite", bool(value < 10))


if __name__ == "__main__":
    main()
