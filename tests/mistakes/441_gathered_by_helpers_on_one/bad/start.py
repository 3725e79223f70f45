"""Joins the processes that the launcher started."""

import os

import jax


def join():
    if "COORDINATOR" in os.environ:
        jax.distributed.initialize(
            os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
        )
