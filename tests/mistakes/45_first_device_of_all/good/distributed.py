"""Setting up the processes of a run."""

import dataclasses
import os

import jax


@dataclasses.dataclass(frozen=True)
class Cluster:
    coordinator: str
    num_processes: int
    process_id: int

    @classmethod
    def from_environment(cls) -> "Cluster":
        env = os.environ
        return cls(env["COORDINATOR"], int(env["NUM_PROCESSES"]), int(env["PROCESS_ID"]))

    def connect(self) -> None:
        jax.distributed.initialize(self.coordinator, self.num_processes, self.process_id)
