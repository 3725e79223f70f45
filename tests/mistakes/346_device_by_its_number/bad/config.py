"""The device that a process works on, by a name as "cpu:1"."""

import os

import jax


def start():
    jax.distributed.initialize(
        os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )


def parse_device(device):
    """A device of jax for a name, a device, or None for the default."""
    if isinstance(device, str):
        kind, index = f"{device}:0".split(":")[:2]
        return jax.devices(kind)[int(index)]  # mistake: first-device-pinned
    return device if device is not None else jax.local_devices()[0]
