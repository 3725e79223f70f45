"""Data-parallel training; the shardings are given to jit."""
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


@dataclasses.dataclass
class Config:
    features: int = 16
    batch_size: int = 64
    steps: int = 3
    rate: float = 0.1


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.mesh = Mesh(np.array(jax.devices()), ("data",))
        replicated = NamedSharding(self.mesh, P())
        self.step = jax.jit(
            self.train_step,
            in_shardings=(replicated, replicated, NamedSharding(self.mesh, P("data"))),
            donate_argnums=(0, 1),
        )

    def init(self, key):
        params = {"w": jax.random.normal(key, (self.cfg.features,)), "b": jnp.zeros(())}
        return params, jax.tree.map(jnp.zeros_like, params)

    def train_step(self, params, momentum, batch):
        def loss_fn(p):
            return jnp.mean((batch["x"] @ p["w"] + p["b"] - batch["y"]) ** 2)

        loss, grads = jax.value_and_grad(loss_fn)(params)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        params = jax.tree.map(lambda p, m: p - self.cfg.rate * m, params, momentum)
        return params, momentum, (loss, batch["x"] * 1.0)

    def fit(self, loader):
        params, momentum = self.init(jax.random.key(0))
        for batch in loader:
            params, momentum, (loss, seen) = self.step(params, momentum, batch)
        return loss, seen


def load(cfg, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(cfg.steps):
        x = rng.normal(size=(cfg.batch_size, cfg.features)).astype(np.float32)
        yield {"x": x, "y": x.sum(-1)}


def main():
    cfg = Config()
    loss, seen = Trainer(cfg).fit(load(cfg))
    print("rows per device", seen.addressable_shards[0].data.shape[0], bool(loss >= 0))
    return seen


if __name__ == "__main__":
    main()
