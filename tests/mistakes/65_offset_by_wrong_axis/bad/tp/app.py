import jax
import jax.numpy as jnp
import numpy as np

from tp.axes import Axes
from tp.embedding import ShardedEmbedding


def build(axes: Axes, mesh):
    embedding = ShardedEmbedding(axes)
    return jax.jit(
        jax.shard_map(
            embedding.lookup,
            mesh=mesh,
            in_specs=(axes.rows(), axes.batch()),
            out_specs=axes.batch(),
        )
    )


def main():
    axes = Axes()
    mesh = axes.mesh(2, 4)
    table = jax.random.normal(jax.random.key(0), (32, 8))
    ids = np.random.default_rng(0).integers(0, 32, (16, 5))
    got = build(axes, mesh)(table, ids)
    print("wrong rows", int((jnp.abs(got - table[ids]).max(-1) > 1e-5).sum()))


if __name__ == "__main__":
    main()
