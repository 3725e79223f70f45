"""Several processes."""

import os

import jax
from jax.sharding import AxisType, Mesh


def connect() -> None:
    jax.distributed.initialize(
        os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )


def global_mesh() -> Mesh:
    return jax.make_mesh((jax.device_count(),), ("fsdp",), axis_types=(AxisType.Auto,))
