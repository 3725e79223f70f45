import re

import jax
import jax.numpy as jnp
import numpy as np
import flax.linen as nn
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("dp", "mp"))
RULES = [(r"mlp/fc_in/kernel", P(None, "mp")), (r"mlp/fc_out/kernel", P("mp", None)), (r".*", P())]


class Block(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x):
        h = nn.Dense(4 * self.width, name="fc1")(nn.LayerNorm(name="norm")(x))
        return x + nn.Dense(self.width, name="fc2")(nn.gelu(h))


class Model(nn.Module):
    width: int = 256
    layers: int = 2

    @nn.compact
    def __call__(self, x):
        for number in range(self.layers):
            x = Block(self.width, name=f"layer_{number}")(x)
        return x


def specs_of(params):
    def one(path, _):
        name = "/".join(part.key for part in path)
        return next(spec for pattern, spec in RULES if re.search(pattern, name))

    return jax.tree_util.tree_map_with_path(one, params)


model, tx = Model(), optax.adamw(1e-3)


@jax.jit
def train_step(params, opt, x):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((model.apply(p, x) - 1.0) ** 2))(params)
    updates, opt = tx.update(grads, opt, params)
    return optax.apply_updates(params, updates), opt, loss


rng = np.random.default_rng(0)
example = jnp.zeros((1, model.width))
params = model.init(jax.random.key(0), example)
shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs_of(params))
params = jax.device_put(params, shardings)
opt = tx.init(params)
for _ in range(3):
    x = jax.device_put(rng.normal(size=(64, model.width)).astype(np.float32), NamedSharding(mesh, P("dp")))
    params, opt, loss = train_step(params, opt, x)  # here
print(float(loss))
