"""Scores a batch on all devices, and compares with one."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from layers.axes import Layout
from layers.row_parallel import RowParallel

BATCH, HIDDEN, CLASSES = 32, 256, 16


def reference(x, layer):
    weight = jnp.asarray(np.asarray(layer.weight))
    return x @ weight + layer.bias


def main():
    layout = Layout()
    mesh = layout.mesh()
    data_key, weight_key = jax.random.split(jax.random.key(0))
    layer = RowParallel(layout, mesh, weight_key, HIDDEN, CLASSES)
    x = jax.random.normal(data_key, (BATCH, HIDDEN))
    spread = jax.device_put(x, jax.NamedSharding(mesh, P(layout.rows, layout.features)))
    scores = np.asarray(jax.jit(layer.__call__)(spread))
    wanted = np.asarray(reference(x, layer))
    print("scores", scores.shape)
    worst = float(np.abs(scores - wanted).max())
    print("worst difference from one device", int(worst > 1e-3))


if __name__ == "__main__":
    main()
