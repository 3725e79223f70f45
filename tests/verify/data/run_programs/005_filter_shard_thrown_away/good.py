import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


class Mlp(eqx.Module):
    up: eqx.nn.Linear
    down: eqx.nn.Linear

    def __init__(self, key):
        k1, k2 = jax.random.split(key)
        self.up = eqx.nn.Linear(512, 2048, key=k1)
        self.down = eqx.nn.Linear(2048, 512, key=k2)

    def __call__(self, x):
        return self.down(jax.nn.gelu(self.up(x)))


@eqx.filter_jit
def step(model, x):
    def loss(model):
        return jnp.mean((jax.vmap(model)(x) - x) ** 2)

    value, grads = eqx.filter_value_and_grad(loss)(model)
    return eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, grads)), value


model = Mlp(jax.random.key(0))
model = eqx.filter_shard(model, NamedSharding(mesh, P()))
x = eqx.filter_shard(np.ones((64, 512), np.float32), NamedSharding(mesh, P(("data", "model"))))
for _ in range(3):
    model, value = step(model, x)
print(float(value))
