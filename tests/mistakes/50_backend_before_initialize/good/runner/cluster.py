"""Connects the processes."""

import os

import jax


def setup() -> None:
    """Join the cluster that the launcher describes in the environment."""
    if "COORDINATOR" in os.environ:
        jax.distributed.initialize(
            coordinator_address=os.environ["COORDINATOR"],
            num_processes=int(os.environ["NUM_PROCESSES"]),
            process_id=int(os.environ["PROCESS_ID"]),
        )
