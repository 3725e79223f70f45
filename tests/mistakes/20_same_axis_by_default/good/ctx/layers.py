import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding

from ctx.config import RunConfig
from ctx.specs import activation_spec


def make_block(cfg: RunConfig, mesh: Mesh):
    def block(x, w):
        y = jax.nn.gelu(jnp.einsum("bld,de->ble", x, w))
        sharding = NamedSharding(mesh, activation_spec(cfg.sharding))
        return x + jax.lax.with_sharding_constraint(y, sharding)

    return jax.jit(block)
