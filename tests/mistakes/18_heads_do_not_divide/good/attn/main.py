import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from attn.config import SMALL
from attn.layer import Attention, shard


def build_mesh(cfg):
    return Mesh(np.array(jax.devices()).reshape(cfg.shape), ("data", "tensor"))


def main():
    cfg = SMALL
    layer = shard(Attention(cfg, jax.random.key(0)), build_mesh(cfg.mesh))
    out = eqx.filter_jit(layer)(jnp.ones((2, 8, cfg.dim)))
    print("out", out.shape)


if __name__ == "__main__":
    main()
