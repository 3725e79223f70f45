"""Log probabilities of a head whose vocabulary is split.

Prints the sharded and the whole negative log likelihood.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec as P

from lmhead.parallel import Layout, vocab_parallel_loss

LAYOUT = Layout()


def loss_fn(mesh, layout=LAYOUT):
    specs = (P(layout.batch, None), P(layout.vocab, None), P(layout.batch))
    body = partial(vocab_parallel_loss, layout=layout)
    return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=P()))


def reference(hidden, table, targets):
    logp = jax.nn.log_softmax(hidden @ table.T)
    return -jnp.take_along_axis(logp, targets[:, None], axis=-1).mean()


if __name__ == "__main__":
    mesh = jax.make_mesh((2, 4), (LAYOUT.batch, LAYOUT.vocab), axis_types=(AxisType.Auto,) * 2)
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((8, 16)).astype(np.float32)
    table = rng.standard_normal((32, 16)).astype(np.float32)
    targets = rng.integers(0, 32, 8)
    print(float(loss_fn(mesh)(hidden, table, targets)), float(reference(hidden, table, targets)))
