"""What the hosts of a job do together."""

import dataclasses
import os

from jax.experimental.multihost_utils import process_allgather


@dataclasses.dataclass
class Hosts:
    spread: bool

    @classmethod
    def from_environment(cls):
        return cls(spread=os.environ.get("SPREAD", "yes") == "yes")

    def whole(self, tree):
        if self.spread:
            tree = process_allgather(tree, tiled=True)
        return tree
