"""Rollouts of a policy on several hosts."""
import os

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec as P

from sampler import Sampler


def prompts_for(mesh, per_host):
    own = np.random.default_rng(jax.process_index()).integers(0, 32, per_host)
    return jax.make_array_from_process_local_data(NamedSharding(mesh, P("data")), own)


def main():
    jax.distributed.initialize(
        os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    table = jax.random.normal(jax.random.key(0), (32, 32))
    rng = jax.random.key(7)
    sampler = Sampler(mesh)
    tokens, noise = sampler.generate(table, prompts_for(mesh, 16), 4, rng)
    own = float(np.asarray(noise[-1].addressable_shards[0].data))
    levels = multihost_utils.process_allgather(np.float32(own))
    print("one level of noise:", bool(np.all(levels == levels[0])), flush=True)


if __name__ == "__main__":
    main()
