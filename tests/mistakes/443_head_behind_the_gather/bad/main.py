"""Scores of a small model over all devices, and whether their copies agree."""

import jax
import layers
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P


def build(mesh):
    columns, rows = P(None, layers.AXIS), P(layers.AXIS, None)
    specs = {"embed": columns, "blocks": [{"kernel": columns}, {"kernel": columns}], "head": rows}

    def forward(params, x):
        return layers.scores(params, x @ params["embed"])  # mistake: missing-reduction

    return jax.jit(jax.shard_map(forward, mesh=mesh, in_specs=(specs, P()), out_specs=P(), check_vma=False))


def largest_difference(copies):
    """Between the copy of the first device and any other."""
    return max(float(np.abs(copies[0] - one).max()) for one in copies)


def main():
    mesh = Mesh(np.array(jax.devices()), (layers.AXIS,))
    out = build(mesh)(layers.init(jax.random.key(0), 64, 10), jax.random.normal(jax.random.key(1), (4, 8)))
    copies = [np.asarray(one.data) for one in out.addressable_shards]
    print("all copies are the same" if largest_difference(copies) < 1e-5 else "the copies differ")


if __name__ == "__main__":
    main()
