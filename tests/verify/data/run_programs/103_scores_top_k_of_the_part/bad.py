"""Retrieval over an index whose rows are split over devices."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("rows",))
N, D, TOP = 32768, 256, 8


def search(queries, index):
    scores = queries @ index.T
    best, where = lax.top_k(scores, TOP)  # here
    best = lax.all_gather(best, "rows", axis=1, tiled=True)
    where = lax.all_gather(where, "rows", axis=1, tiled=True)
    best, order = lax.top_k(best, TOP)
    return best, jnp.take_along_axis(where, order, 1)


search = jax.jit(jax.shard_map(search, mesh=mesh, in_specs=(P(), P("rows")), out_specs=(P(), P()), check_vma=False))


def encode(params, x):
    h = jax.nn.relu(x @ params["w1"]) @ params["w2"]
    return h / jnp.linalg.norm(h, axis=-1, keepdims=True)


def main():
    rng = np.random.default_rng(0)
    index = rng.standard_normal((N, D), dtype=np.float32)
    index = jax.device_put(index, NamedSharding(mesh, P("rows")))
    params = {"w1": rng.standard_normal((D, 1024), dtype=np.float32), "w2": rng.standard_normal((1024, D), dtype=np.float32)}
    params = jax.device_put(params, NamedSharding(mesh, P()))
    hits = 0
    for _ in range(3):
        queries = jax.device_put(rng.standard_normal((64, D), dtype=np.float32), NamedSharding(mesh, P()))
        best, where = search(jax.jit(encode)(params, queries), index)
        hits += int((where < N // 2).sum())
    print(hits)


main()
