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


def loaders(config, x, y, held_out):
    batch_size, eval_batch_size = config.batch_size, 2 * config.batch_size
    if batch_size % jax.process_count():
        raise ValueError("the batch cannot be shared out among the processes")
    host_batch_size = batch_size  # mistake: local-and-global-counts
    host_eval_batch_size = eval_batch_size // jax.process_count()
    return Loader(x, y, host_batch_size), Loader(*held_out, host_eval_batch_size)


def main():
    join()
    config = Config()
    rows, whole = layout()
    params = jax.device_put(init(jax.random.key(0), config.features, config.hidden), whole)
    x, y = examples(config.size, config.features)
    held_out = examples(256, config.features)
    loader, evaluated = loaders(config, x, y, held_out)
    say("batches held out", len(list(evaluated)))
    steps, value = 0, 0.0
    for one, other in loader:
        one = jax.make_array_from_process_local_data(rows, one)
        other = jax.make_array_from_process_local_data(rows, other)
        params, value = step(params, one, other)
        steps += 1
    say("steps of an epoch", steps, "loss is finite", bool(value < 10))


if __name__ == "__main__":
    main()
