"""The state of a training, and how it is spread."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def default_mesh():
    return jax.make_mesh((2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def shardings_for(params, mesh):
    """The second dimension of each matrix over the model axis, where that divides it."""

    def sharding_of(x):
        split = x.ndim == 2 and x.shape[1] % mesh.shape["model"] == 0
        return NamedSharding(mesh, P(None, "model") if split else P())

    return jax.tree.map(sharding_of, params)


class State:
    def __init__(self, params):
        self.params = params

    def shard(self, *, mesh=None):
        """The same state, spread over a mesh."""
        shardings = shardings_for(self.params, mesh)  # mistake: mesh-left-out
        if mesh is None:
            mesh = default_mesh()
        with jax.set_mesh(mesh):
            return State(jax.tree.map(jax.device_put, self.params, shardings))


def init(width=16, hidden=64):
    a, b = jax.random.split(jax.random.key(0))
    return State(
        {
            "up": jax.random.normal(a, (width, hidden)),
            "down": jax.random.normal(b, (hidden, width)),
            "bias": jnp.zeros(hidden),
        }
    )
