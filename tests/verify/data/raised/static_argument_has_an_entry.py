import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: in_shardings does not have the structure.*none for static arguments|SL212
def forward(params, tokens, train):
    return params[tokens] * (0.9 if train else 1.0)


repl, data = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
entries = {"forward": (repl, data, None)}  # ok: entries = {"forward": (repl, data)}
forward = jax.jit(forward, in_shardings=entries["forward"], static_argnums=2)


def evaluate(params, tokens):
    return forward(params, tokens, False)  # at


evaluate(jnp.ones((16, 4)), jnp.zeros((8,), jnp.int32))
