import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec


class Placer:
    """Puts host weights on a mesh, a slice for each device."""

    def __init__(self, mesh: Mesh):
        self.mesh = mesh

    def tree(self, tree, specs):
        return jax.tree.map(self.one, tree, specs)

    def one(self, value, spec: PartitionSpec):
        sharding = NamedSharding(self.mesh, spec)
        buffers = []
        for device, index in sharding.devices_indices_map(value.shape).items():
            buffers.append(jax.device_put(value[index], device))
        return jax.make_array_from_single_device_arrays(value.shape, sharding, buffers)  # mistake: arrays-for-all-devices
