"""Compiles what is served."""

import equinox as eqx
import jax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from regressor.model import predict


class Server:
    """Answers batches of rows; over all devices where it is told to."""

    def __init__(self, model, sharded, donate=False):
        self.model = model
        self.mesh = Mesh(jax.devices(), ("batch",)) if sharded else None
        options = {"donate": "warn-except-first" if donate else "none"}
        if self.mesh is not None:
            rows = NamedSharding(self.mesh, P("batch"))
            options["out_shardings"] = rows
        self._predict = eqx.filter_jit(predict, **options)  # mistake: filter-jit-shardings

    def answer(self, rows):
        """Predictions for rows that are on this machine."""
        if self.mesh is not None:
            rows = jax.device_put(rows, NamedSharding(self.mesh, P("batch")))
        return self._predict(self.model, rows)
