"""A linear layer whose weight is split along what it contracts."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from layers.axes import Layout


class RowParallel:
    """`x @ w + b`, where each device holds some columns of x and the rows of w that go with them."""

    def __init__(self, layout: Layout, mesh, key, size_in, size_out):
        self.layout = layout
        self.mesh = mesh
        weight = jax.random.normal(key, (size_in, size_out)) / jnp.sqrt(size_in)
        self.weight = jax.device_put(weight, jax.NamedSharding(mesh, P(layout.features, None)))
        self.bias = jnp.zeros((size_out,))

    def _local(self, x, weight, bias):
        part = jnp.dot(x, weight)
        whole = jax.lax.psum(part, self.layout.features)
        return whole + bias

    def __call__(self, x):
        rows, features = self.layout.rows, self.layout.features
        run = jax.shard_map(
            self._local,
            mesh=self.mesh,
            in_specs=(P(rows, features), P(features, None), P(None)),
            out_specs=P(rows, None),
            check_vma=False,
        )
        return run(x, self.weight, self.bias)
