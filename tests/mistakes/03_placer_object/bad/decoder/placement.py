"""Placement policies, chosen by name on the command line."""

import dataclasses

import equinox as eqx
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec


@dataclasses.dataclass(frozen=True)
class Placer:
    """Gives every array of a tree the same sharding."""

    mesh: Mesh
    spec: PartitionSpec

    @property
    def sharding(self) -> NamedSharding:
        return NamedSharding(self.mesh, self.spec)

    def __call__(self, tree):
        return eqx.filter_shard(tree, self.sharding)


def by_name(name: str, mesh: Mesh) -> Placer:
    specs = {"replicated": PartitionSpec(), "heads": PartitionSpec(None, "heads")}
    return Placer(mesh, specs[name])


def device_mesh() -> Mesh:
    return Mesh(jax.devices(), ("heads",))
