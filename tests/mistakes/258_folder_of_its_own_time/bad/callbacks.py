"""What is done at some steps of the training."""

import dataclasses
import os

import orbax.checkpoint as ocp


@dataclasses.dataclass
class SaveCallback:
    folder: str | None
    keep: int = 2

    def __post_init__(self):
        if self.folder is not None:
            self.folder = os.path.abspath(self.folder)
            self.manager = ocp.CheckpointManager(
                os.path.join(self.folder, "state"), options=ocp.CheckpointManagerOptions(max_to_keep=self.keep)
            )

    def __call__(self, step, state):
        if self.folder is not None:
            self.manager.save(step, args=ocp.args.StandardSave(state))

    def close(self):
        if self.folder is not None:
            self.manager.wait_until_finished()
            self.manager.close()
