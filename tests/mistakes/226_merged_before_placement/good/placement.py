"""Where every weight of the model lives."""

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def build_mesh(data: int, tensor: int) -> Mesh:
    devices = np.asarray(jax.devices()).reshape(data, tensor)
    return Mesh(devices, ("data", "tensor"))


def spec_for(path: tuple, value: jax.Array) -> P:
    names = [str(p) for p in path]
    if value.ndim != 2:
        return P()
    if "up" in names:
        return P(None, "tensor")
    if "down" in names:
        return P("tensor", None)
    return P()


def place_model(model: nnx.Module, mesh: Mesh) -> nnx.Module:
    """Spread the weights of `model` over the tensor axis of the mesh."""
    graphdef, state = nnx.split(model)
    flat = nnx.to_flat_state(state)
    placed = [
        (path, var.replace(jax.device_put(var.get_value(), NamedSharding(mesh, spec_for(path, var.get_value())))))
        for path, var in flat
    ]
    sharded_state = nnx.from_flat_state(placed)
    return nnx.merge(graphdef, sharded_state)


def batch_sharding(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, P("data"))
