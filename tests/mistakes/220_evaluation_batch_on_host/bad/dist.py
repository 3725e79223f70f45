from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


class Layout(NamedTuple):
    mesh: Mesh
    batch: NamedSharding
    params: Any


def make_layout(cfg) -> Layout:
    devices = np.array(jax.devices()).reshape(cfg["shape"])
    mesh = Mesh(devices, tuple(cfg["axes"]))

    def col(*spec):
        return NamedSharding(mesh, PartitionSpec(*spec))

    params = {"query": col(None, "mp"), "doc": col(None, "mp"), "temp": col()}
    return Layout(mesh, col("dp"), params)


def to_devices(tree, sharding):
    return jax.tree.map(lambda x: jax.device_put(x, sharding), tree)
