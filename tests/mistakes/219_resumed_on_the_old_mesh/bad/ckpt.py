import os

import jax
import orbax.checkpoint as ocp


class Checkpoints:
    def __init__(self, directory: str, keep: int = 3, every: int = 1000):
        opts = ocp.CheckpointManagerOptions(max_to_keep=keep, save_interval_steps=every)
        self.manager = ocp.CheckpointManager(os.path.abspath(directory), options=opts)

    def save(self, step, state):
        self.manager.save(step, args=ocp.args.StandardSave(state))

    def latest(self):
        return self.manager.latest_step()

    def restore(self, target):
        """target: tree of ShapeDtypeStruct describing what comes back and where."""
        return self.manager.restore(self.latest(), args=ocp.args.StandardRestore(target))

    def close(self):
        self.manager.wait_until_finished()
        self.manager.close()


def abstract_like(init_fn, shardings, *args):
    shapes = jax.eval_shape(init_fn, *args)
    return jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), shapes)  # mistake: restore-without-sharding
