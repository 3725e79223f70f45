import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P


class KVCache:
    def __init__(self, cfg, mesh, batch):
        self.shape = (cfg.layers, batch, cfg.max_len, cfg.kv_heads, cfg.head_dim)
        self.sharding = NamedSharding(mesh, P(None, "data", None, "tensor", None))

    def allocate(self, dtype=jnp.bfloat16):
        make = jax.jit(lambda: jnp.zeros(self.shape, dtype), out_shardings=self.sharding)
        return {"k": make(), "v": make()}
