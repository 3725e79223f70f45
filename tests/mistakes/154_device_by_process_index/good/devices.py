"""Where a process runs what is its own."""
import os

import jax


def connect():
    if "COORDINATOR" in os.environ:
        jax.distributed.initialize(
            os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
        )


def scratch_device():
    """The device on which this process decodes its own images."""
    return jax.local_devices()[0]
