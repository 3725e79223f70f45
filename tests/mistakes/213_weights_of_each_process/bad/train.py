"""Starts a model on several hosts."""
import dataclasses
import os

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec as P

from weights import draw
from report import Report


@dataclasses.dataclass(frozen=True)
class Options:
    seed: int = 11
    widths: tuple = (8, 16, 1)

    def data_seed(self):
        return self.seed * 100 + jax.process_index()


def initial(options, mesh):
    generator = np.random.default_rng(options.data_seed())  # mistake: replicas-differ
    host = draw(generator, options.widths)
    whole = NamedSharding(mesh, P())
    return [jax.make_array_from_process_local_data(whole, one) for one in host]


def main():
    jax.distributed.initialize(
        os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    weights = initial(Options(), mesh)
    own = np.concatenate([np.asarray(one.addressable_data(0)).ravel() for one in weights])
    every = multihost_utils.process_allgather(own)
    if jax.process_index() == 0:
        print("the same on all processes:", bool((every == every[0]).all()))
    Report("devices").add("all", jax.device_count()).add("of this process", jax.local_device_count()).show()


if __name__ == "__main__":
    main()
