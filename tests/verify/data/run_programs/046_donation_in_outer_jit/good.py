from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))


@partial(jax.jit, donate_argnames=("cache",))
def decode(params, cache, token, position):
    key = token @ params["k"]
    cache = jax.lax.dynamic_update_slice(cache, key[:, None], (0, position, 0))
    return jnp.einsum("bd,btd->bt", key, cache), cache


class Engine:
    def __init__(self, params):
        self.params = params
        self.step = jax.jit(lambda cache, token, at: decode(self.params, cache, token, at), donate_argnums=0)


params = {"k": jax.device_put(jnp.ones((256, 256)) * 0.01, NamedSharding(mesh, P()))}
cache = jax.device_put(jnp.zeros((64, 128, 256)), NamedSharding(mesh, P("data")))
token = jax.device_put(jnp.ones((64, 256)), NamedSharding(mesh, P("data")))
engine = Engine(params)
for at in range(3):
    scores, cache = engine.step(cache, token, at)
print(scores.sum())
