import jax
import jax.numpy as jnp

from parallel import sharded


def init(key, dim, hidden, rounds):
    def one(k):
        a, b = jax.random.split(k)
        return {
            "msg": jax.random.normal(a, (2 * dim, hidden)) * (2 * dim) ** -0.5,
            "upd": jax.random.normal(b, (hidden, dim)) * hidden**-0.5,
        }

    return [one(k) for k in jax.random.split(key, rounds)]


@sharded("edge", None)
def messages(p, h, src, dst):
    return jax.nn.relu(jnp.concatenate([h[src], h[dst]], -1) @ p["msg"])


@sharded("edge", None)
def aggregate(m, dst, n):
    return jax.ops.segment_sum(m, dst, n)


def propagate(params, h, src, dst):
    for p in params:
        m = messages(p, h, src, dst)
        h = h + aggregate(m, dst, h.shape[0]) @ p["upd"]
    return h
