import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

from ringattn.attention import RingAttention
from ringattn.config import AttnConfig


def dense(q, k, v):
    scores = jnp.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5
    return jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores, -1), v)


def main():
    cfg = AttnConfig()
    mesh = Mesh(np.array(jax.devices()), (cfg.seq_axis,))
    spec = P(cfg.seq_axis)
    attend = jax.jit(jax.shard_map(RingAttention(cfg), mesh=mesh, in_specs=(spec, spec, spec), out_specs=spec))
    q, k, v = jax.random.normal(jax.random.key(0), (3, cfg.seq_len, cfg.heads, cfg.head_dim))
    print("error", float(jnp.abs(attend(q, k, v) - dense(q, k, v)).max()))


if __name__ == "__main__":
    main()
