import jax
import jax.numpy as jnp
import numpy as np

p_eval = jax.pmap(lambda params, x, y: (x @ params).sum() + y.sum())


def evaluate(mapped, *arrays):
    return mapped(*arrays)  # at


rows = 6  # ok: rows = 8
# says: `mapped` maps axis 0 of arrays.2. f\d+.6,2.: it has 6 rows, and needs 8
evaluate(p_eval, jnp.ones((8, 6, 4)), np.ones((8, 2, 6)), np.ones((rows, 2)))
