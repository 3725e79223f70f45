from dataclasses import dataclass

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


@dataclass
class Shardings:
    mesh: Mesh
    state: tuple
    batch: NamedSharding
    scalar: NamedSharding


def fsdp(mesh, state_shapes, batch_axis="fsdp"):
    n = mesh.shape["fsdp"]

    def rule(x):
        if x.ndim == 2 and x.shape[0] % n == 0:
            return NamedSharding(mesh, P("fsdp"))
        return NamedSharding(mesh, P())

    return Shardings(
        mesh=mesh,
        state=jax.tree.map(rule, state_shapes),
        batch=NamedSharding(mesh, P(batch_axis)),
        scalar=NamedSharding(mesh, P()),
    )
