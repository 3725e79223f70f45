"""Process start-up and per-process batch placement."""
import os

import jax


def start():
    address = os.environ.get("COORDINATOR")
    if address:
        jax.distributed.initialize(
            address, int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
        )


def shard(batch):
    """Split this process's part of the batch over the devices pmap will use."""
    rows = jax.local_device_count()

    def split(x):
        per_device = x.shape[0] // jax.local_device_count()
        return x[: rows * per_device].reshape(rows, per_device, *x.shape[1:])

    return jax.tree.map(split, batch)
