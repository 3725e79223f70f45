"""The variables of a model whose layers say by which logical axes they are split."""

import flax.linen as nn
import jax
import jax.numpy as jnp

RULES = (("embed", None), ("hidden", "model"))


class Block(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x):
        into = nn.with_logical_partitioning(nn.initializers.lecun_normal(), ("embed", "hidden"))
        back = nn.with_logical_partitioning(nn.initializers.lecun_normal(), ("hidden", "embed"))
        hidden = nn.gelu(nn.Dense(4 * self.width, kernel_init=into, use_bias=False)(x))
        return x + nn.Dense(self.width, kernel_init=back, use_bias=False)(hidden)


def create(model, mesh, key, batch):
    """The variables, each where its axes say, and these shardings."""

    def init(key, batch):
        return model.init(key, batch)

    shapes = jax.eval_shape(init, key, batch)
    shardings = nn.logical_to_mesh_sharding(nn.get_partition_spec(shapes), mesh, RULES)
    variables = jax.jit(init, out_shardings=shardings)(key, batch)
    return nn.unbox(variables), shardings


def sample(width):
    return jnp.ones((8, width))
