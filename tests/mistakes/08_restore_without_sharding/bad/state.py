"""The train state, created sharded."""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax.training.train_state import TrainState
from jax.sharding import NamedSharding, PartitionSpec as P


class Mlp(nn.Module):
    hidden: int = 64
    out: int = 16

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(self.hidden, use_bias=False)(x))
        return nn.Dense(self.out, use_bias=False)(x)


def create(key) -> TrainState:
    model = Mlp()
    params = model.init(key, jnp.ones((1, 16)))["params"]
    return TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(1e-3))


def state_shardings(mesh):
    abstract = jax.eval_shape(create, jax.random.key(0))
    return jax.tree.map(lambda x: NamedSharding(mesh, P("fsdp") if x.ndim == 2 else P()), abstract)
