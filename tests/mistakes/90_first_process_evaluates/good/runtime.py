"""Start-up and mesh construction."""
import os

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def start():
    address = os.environ.get("COORDINATOR")
    if address is not None:
        jax.distributed.initialize(
            coordinator_address=address,
            num_processes=int(os.environ["NUM_PROCESSES"]),
            process_id=int(os.environ["PROCESS_ID"]),
        )


class Runtime:
    def __init__(self):
        self.mesh = Mesh(np.array(jax.devices()), ("data",))
        self.rows = NamedSharding(self.mesh, P("data"))
        self.replicated = NamedSharding(self.mesh, P())

    @property
    def is_chief(self):
        return jax.process_index() == 0

    def spread(self, x):
        """Build a global array from a batch every process can compute."""
        return jax.make_array_from_callback(x.shape, self.rows, lambda idx: x[idx])
