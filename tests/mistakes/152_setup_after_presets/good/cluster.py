import os

import jax


def is_multihost() -> bool:
    return int(os.environ.get("NUM_PROCESSES", "1")) > 1


def setup() -> None:
    """torchrun style variables, that is what our scheduler sets"""
    if not is_multihost():
        return
    jax.distributed.initialize(
        coordinator_address=os.environ["COORDINATOR"],
        num_processes=int(os.environ["NUM_PROCESSES"]),
        process_id=int(os.environ["PROCESS_ID"]),
    )


def log(*a) -> None:
    if jax.process_index() == 0:
        print(*a, flush=True)
