"""A search over passages that are split: the best of all are chosen among the best of each part."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

PASSAGES, WIDTH, QUERIES, BEST, PARTS = 32768, 64, 128, 8, 8
mesh = jax.make_mesh((PARTS,), ("shard",), axis_types=(jax.sharding.AxisType.Auto,))
by_passage = NamedSharding(mesh, P("shard", None))


def best(scores):
    parts = scores.reshape(QUERIES, PARTS, PASSAGES // PARTS)
    parts = jax.lax.with_sharding_constraint(parts, NamedSharding(mesh, P(None, "shard", None)))

    def of_part(mine):
        values, at = jax.lax.top_k(mine, BEST)
        return values, at + jax.lax.axis_index("shard") * (PASSAGES // PARTS)

    split = P(None, "shard", None)
    values, at = jax.shard_map(of_part, mesh=mesh, in_specs=split, out_specs=split)(parts)
    values, at = values.reshape(QUERIES, -1), at.reshape(QUERIES, -1)
    values, among = jax.lax.top_k(values, BEST)
    return values, jnp.take_along_axis(at, among, 1)


@jax.jit
def search(passages, queries):
    return best(queries @ passages.T)


def main():
    rng = np.random.default_rng(0)
    passages = jax.device_put(rng.normal(size=(PASSAGES, WIDTH)).astype(np.float32), by_passage)
    queries = jax.device_put(rng.normal(size=(QUERIES, WIDTH)).astype(np.float32), NamedSharding(mesh, P()))
    for _ in range(2):
        scores, found = search(passages, queries)
    print(float(scores.sum()), int(found[0, 0]))


main()
