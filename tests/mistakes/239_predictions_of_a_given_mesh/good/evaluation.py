"""Predictions of a model over a set of examples."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec as P


class Evaluator:
    """Runs a model over the rows that each host reads."""

    def __init__(self, mesh, apply, batch):
        self.rows = NamedSharding(mesh, P("data"))
        self.batch = batch
        self.forward = jax.jit(apply, out_shardings=self.rows)

    def batches(self, own):
        for at in range(0, len(own), self.batch):
            yield jax.make_array_from_process_local_data(self.rows, own[at : at + self.batch])

    def predictions(self, params, own):
        found = []
        for x in self.batches(own):
            found.append(multihost_utils.process_allgather(self.forward(params, x), tiled=True))
        return np.concatenate(found)


def summary(predictions):
    return {
        "count": len(predictions),
        "positive": float(jnp.mean(predictions > 0)),
        "largest": float(np.max(predictions)),
    }
