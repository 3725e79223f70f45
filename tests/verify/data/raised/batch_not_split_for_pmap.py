import functools

import jax
import jax.numpy as jnp
import numpy as np


@functools.partial(jax.pmap, axis_name="batch", in_axes=(None, 0))
def train_step(params, batch):
    return jax.lax.pmean(batch["x"] @ params["w"], "batch")


params = {"w": jnp.ones((6, 4)), "count": 3}
batch = {"x": np.ones((16, 2, 6)), "y": np.ones((16, 2))}  # ok: batch = {"x": np.ones((8, 4, 6)), "y": np.ones((8, 4))}
# says: `train_step` maps axis 0 of every leaf of `batch`: it has 16 rows, and needs 8
train_step(params, batch)  # at
