"""Training and validation steps."""

import jax
from jax.sharding import Mesh, PartitionSpec as P

from losses import DATA_AXIS, cross_entropy, global_loss


def apply_fn(params, x):
    return jax.nn.relu(x @ params["w1"]) @ params["w2"]


class Trainer:
    def __init__(self, mesh: Mesh, lr: float):
        self.lr = lr
        specs = (P(), P(DATA_AXIS))
        self.train_step = jax.jit(jax.shard_map(self._train, mesh=mesh, in_specs=specs, out_specs=(P(), P())))
        self.eval_step = jax.jit(self._evaluate)

    def _train(self, params, batch):
        value, grads = jax.value_and_grad(lambda p: global_loss(apply_fn, p, batch))(params)
        return jax.tree.map(lambda p, g: p - self.lr * g, params, grads), value

    def _evaluate(self, params, batch):
        return cross_entropy(apply_fn(params, batch["inputs"]), batch["labels"])
