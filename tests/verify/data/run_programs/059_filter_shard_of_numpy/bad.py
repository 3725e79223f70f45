import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
DATA = NamedSharding(mesh, P("data"))
model = eqx.nn.MLP(256, 256, 512, depth=2, key=jax.random.key(0))
model = eqx.filter_shard(model, NamedSharding(mesh, P()))


@eqx.filter_jit
def step(model, x, y):
    loss = lambda model: jnp.mean((jax.vmap(model)(x) - y) ** 2)
    value, grads = eqx.filter_value_and_grad(loss)(model)
    return eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, grads)), value


rng = np.random.default_rng(0)
for _ in range(2):
    x = rng.normal(size=(512, 256)).astype(np.float32)
    x, y = eqx.filter_shard((x, np.sin(x)), DATA)  # here SL201
    model, value = step(model, x, y)
print(value)
