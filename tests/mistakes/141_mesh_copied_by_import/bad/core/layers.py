import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from core.runtime import device_mesh  # mistake: mesh-bound-at-definition


def pin(x, *axes):
    """Sharding constraint; a no-op in unit tests, which run without a mesh."""
    if device_mesh is None:
        return x
    return jax.lax.with_sharding_constraint(x, NamedSharding(device_mesh, P(*axes)))


def init(key, dim, hidden):
    a, b = jax.random.split(key)
    return {
        "up": jax.random.normal(a, (dim, hidden)) * dim**-0.5,
        "down": jax.random.normal(b, (hidden, dim)) * hidden**-0.5,
    }


def mlp(params, x):
    h = pin(jax.nn.silu(x @ params["up"]), "data", "model")
    return pin(x + h @ params["down"], "data", None)


def score(params, x):
    return jnp.mean(mlp(params, x) ** 2, axis=-1)
