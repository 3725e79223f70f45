"""Process bootstrap."""
import dataclasses
import os

import jax


@dataclasses.dataclass(frozen=True)
class Process:
    index: int
    count: int

    @property
    def chief(self):
        return self.index == 0


def bootstrap():
    env = os.environ
    if "COORDINATOR" in env:
        jax.distributed.initialize(
            env["COORDINATOR"], int(env["NUM_PROCESSES"]), int(env["PROCESS_ID"])
        )
    return Process(jax.process_index(), jax.process_count())
