import dataclasses

import jax


@dataclasses.dataclass(frozen=True)
class Streams:
    """Keys of a run: what the weights are drawn with, and what this process masks its rows with."""

    model: jax.Array
    rows: jax.Array


def of_seed(seed):
    root = jax.random.key(seed)
    model, rows = jax.random.split(root)
    return Streams(model=model, rows=jax.random.fold_in(rows, jax.process_index()))
