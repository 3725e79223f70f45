"""The processes, their mesh, and the rows that each of them reads."""

import os
import time

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def connect():
    jax.distributed.initialize(
        os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    return Mesh(np.array(jax.devices()), ("data",))


class Rows:
    """The part of a process; those of later processes are larger, and take longer to read."""

    def __init__(self, mesh, batch, width):
        self.sharding = NamedSharding(mesh, P("data"))
        self.rng = np.random.default_rng(jax.process_index())
        self.shape = (batch // jax.process_count(), width)

    def open(self):
        time.sleep(0.3 + 2.0 * jax.process_index())

    def next(self):
        local = self.rng.normal(size=self.shape).astype(np.float32)
        return jax.make_array_from_process_local_data(self.sharding, local)
