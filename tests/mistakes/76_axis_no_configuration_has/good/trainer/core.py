import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


class Trainer:
    kernel_spec = PartitionSpec(None, "mp")

    def __init__(self, cfg):
        self.cfg = cfg
        devices = np.asarray(jax.devices()).reshape(cfg.mesh_shape)
        self.mesh = Mesh(devices, cfg.mesh_axes)

    def init(self, key):
        w = jax.random.normal(key, (self.cfg.hidden, self.cfg.hidden))
        return jax.device_put(w, NamedSharding(self.mesh, self.kernel_spec))

    def shard(self, batch):
        return jax.device_put(batch, NamedSharding(self.mesh, PartitionSpec(self.cfg.batch_axis)))

    def fit(self, steps=2):
        w = self.init(jax.random.key(0))

        @jax.jit
        def step(w, x):
            loss, g = jax.value_and_grad(lambda w: jnp.mean((x @ w - x) ** 2))(w)
            return w - 0.1 * g, loss

        rng = np.random.default_rng(0)
        for _ in range(steps):
            x = rng.normal(size=(self.cfg.batch, self.cfg.hidden)).astype(np.float32)
            w, loss = step(w, self.shard(x))
        return w, loss
