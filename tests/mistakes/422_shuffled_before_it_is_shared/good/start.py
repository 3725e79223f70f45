"""Start-up of the processes."""
import os

import jax
from jax.experimental import multihost_utils


def connect():
    address = os.environ.get("COORDINATOR")
    if address is not None:
        count, number = int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
        jax.distributed.initialize(address, num_processes=count, process_id=number)


def wait(name):
    multihost_utils.sync_global_devices(name)
