import jax
import jax.numpy as jnp

from sync.norm import BatchNorm


def init(key, dim, hidden):
    k1, k2 = jax.random.split(key)
    return {"w1": jax.random.normal(k1, (dim, hidden)), "w2": jax.random.normal(k2, (hidden, dim))}


def apply(params, x, axis_name=None):
    norm = BatchNorm(axis_name)
    return norm(jax.nn.relu(norm(x @ params["w1"]))) @ params["w2"]


def sharded_apply(mesh, axis_name):
    """`apply` with the batch split over an axis of the mesh."""
    P = jax.sharding.PartitionSpec

    def run(params, x):
        return apply(params, x, axis_name)

    return jax.jit(jax.shard_map(run, mesh=mesh, in_specs=(P(), P(axis_name)), out_specs=P(axis_name)))
