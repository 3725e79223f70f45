"""Read a flat .npz of weights into a nested tree."""
import os

import jax
import jax.numpy as jnp
import numpy as np


def _nest(flat):
    tree = {}
    for name, value in flat.items():
        *parents, leaf = name.split(".")
        node = tree
        for p in parents:
            node = node.setdefault(p, {})
        node[leaf] = value
    return tree


def to_device(array, dtype, sharding=None):
    return jax.device_put(jnp.asarray(array, dtype))  # mistake: option-not-forwarded


def load(path, dtype=jnp.bfloat16, shardings=None):
    with np.load(path) as z:
        host = {k: z[k] for k in z.files}
    get = (lambda k: shardings.get(k)) if shardings else (lambda k: None)
    return _nest({k: to_device(v, dtype, sharding=get(k)) for k, v in host.items()})


def save_random(path, dim, hidden, vocab, seed=0):
    rng = np.random.default_rng(seed)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    np.savez(
        path,
        **{
            "emb.table": rng.normal(size=(vocab, dim)).astype(np.float32) * 0.1,
            "mlp.w1": rng.normal(size=(dim, hidden)).astype(np.float32) * dim**-0.5,
            "mlp.w2": rng.normal(size=(hidden, dim)).astype(np.float32) * hidden**-0.5,
        },
    )
