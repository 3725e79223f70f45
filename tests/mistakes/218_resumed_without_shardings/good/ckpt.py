import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp


class Checkpoints:
    def __init__(self, root, fresh=False):
        self.root = Path(root).absolute()
        if fresh and self.root.exists():
            shutil.rmtree(self.root)
        self.root.mkdir(parents=True, exist_ok=True)
        self._io = ocp.StandardCheckpointer()

    def latest(self):
        steps = [int(p.name) for p in self.root.iterdir() if p.name.isdigit()]
        return max(steps, default=None)

    def save(self, step, state):
        self._io.save(self.root / str(step), state)
        self._io.wait_until_finished()

    def restore(self, step, target):
        """`target` holds ShapeDtypeStructs; buffers are allocated here, where the target says."""
        buffers = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype, device=s.sharding), target)
        return self._io.restore(self.root / str(step), buffers)
