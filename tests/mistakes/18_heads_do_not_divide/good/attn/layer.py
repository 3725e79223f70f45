import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from attn.config import ModelConfig


class Attention(eqx.Module):
    qkv: jax.Array
    out: jax.Array

    def __init__(self, cfg: ModelConfig, key):
        k1, k2 = jax.random.split(key)
        scale = cfg.dim**-0.5
        self.qkv = jax.random.normal(k1, (3, cfg.dim, cfg.num_heads, cfg.head_dim)) * scale
        self.out = jax.random.normal(k2, (cfg.num_heads, cfg.head_dim, cfg.dim)) * scale

    def __call__(self, x):
        q, k, v = jnp.einsum("btd,sdhk->sbthk", x, self.qkv)
        weights = jax.nn.softmax(jnp.einsum("bthk,bshk->bhts", q, k) / q.shape[-1] ** 0.5)
        return jnp.einsum("bhts,bshk,hkd->btd", weights, v, self.out)


def shard(layer: Attention, mesh: Mesh) -> Attention:
    """Split the heads over the tensor axis."""
    qkv = jax.device_put(layer.qkv, NamedSharding(mesh, P(None, None, "tensor", None)))
    out = jax.device_put(layer.out, NamedSharding(mesh, P("tensor", None, None)))
    return eqx.tree_at(lambda a: (a.qkv, a.out), layer, (qkv, out))
