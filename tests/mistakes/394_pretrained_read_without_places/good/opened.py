"""A reader of checkpoints that is closed again."""

from contextlib import contextmanager

import orbax.checkpoint as ocp


@contextmanager
def reader():
    found = ocp.Checkpointer(ocp.PyTreeCheckpointHandler())
    try:
        yield found
    finally:
        found.close()
