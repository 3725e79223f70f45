import jax
import jax.numpy as jnp
import optax
from flax import struct


@struct.dataclass
class TrainState:
    params: dict
    opt_state: optax.OptState
    tx: optax.GradientTransformation = struct.field(pytree_node=False)

    @classmethod
    def create(cls, key, tx, dim=8):
        params = {"w": jax.random.normal(key, (dim, dim)), "b": jnp.zeros((dim,))}
        return cls(params, tx.init(params), tx)
