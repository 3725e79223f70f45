"""Causal attention with the sequence split over the devices."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

from report import Report

SPEC = P(None, "seq", None)


def scores(q, k, v, queries, keys):
    logits = jnp.einsum("bqd,bkd->bqk", q, k) / np.sqrt(q.shape[-1])
    logits = jnp.where(queries[:, None] >= keys[None, :], logits, -1e9)
    return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(logits, axis=-1), v)


def local(q, k, v):
    k, v = (jax.lax.all_gather(one, "seq", axis=1, tiled=True) for one in (k, v))
    queries = jax.lax.axis_index("seq") * q.shape[1] + jnp.arange(q.shape[1])
    return scores(q, k, v, queries, jnp.arange(k.shape[1]))


def main():
    mesh = jax.make_mesh((8,), ("seq",))
    attend = jax.jit(jax.shard_map(local, mesh=mesh, in_specs=(SPEC, SPEC, SPEC), out_specs=SPEC))
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, 32, 8)).astype(np.float32) for _ in range(3))
    got = attend(*(jax.device_put(one, NamedSharding(mesh, SPEC)) for one in (q, k, v)))
    want = scores(*(jnp.asarray(one) for one in (q, k, v)), jnp.arange(32), jnp.arange(32))
    print("like one device:", bool(np.allclose(got, want, atol=1e-4)))
    Report("devices").add("all", jax.device_count()).add("of this process", jax.local_device_count()).show()


if __name__ == "__main__":
    main()
