import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from inference.cache import KVCache
from inference.config import ModelConfig


@jax.jit
def write(cache, k, v, pos):
    at = lambda buf, new: jax.lax.dynamic_update_slice_in_dim(buf, new[:, :, None], pos, axis=2)
    return {"k": at(cache["k"], k), "v": at(cache["v"], v)}


def main(path="model.yaml", batch=4):
    cfg = ModelConfig.from_yaml(path)
    devices = np.array(jax.devices()).reshape(-1, cfg.tensor_parallel)
    mesh = Mesh(devices, ("data", "tensor"))
    cache = KVCache(cfg, mesh, batch).allocate()
    new = jnp.ones((cfg.layers, batch, cfg.kv_heads, cfg.head_dim), jnp.bfloat16)
    for pos in range(3):
        cache = write(cache, new, new, pos)
    print("cache:", cache["k"].sharding.spec)


if __name__ == "__main__":
    main()
