"""Joins the cluster, and the mesh of it."""
import os

import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def join():
    if os.environ.get("COORDINATOR"):
        jax.distributed.initialize(
            os.environ["COORDINATOR"],
            num_processes=int(os.environ["NUM_PROCESSES"]),
            process_id=int(os.environ["PROCESS_ID"]),
        )


def layout():
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    return NamedSharding(mesh, P("data")), NamedSharding(mesh, P())


def say(*words):
    if jax.process_index() == 0:
        print(*words, flush=True)
