"""Start-up of the processes."""
import os

import jax


def start():
    address = os.environ.get("COORDINATOR")
    if address is not None:
        jax.distributed.initialize(
            coordinator_address=address,
            num_processes=int(os.environ["NUM_PROCESSES"]),
            process_id=int(os.environ["PROCESS_ID"]),
        )
