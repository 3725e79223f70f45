import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def where(mesh, tree):
    return jax.tree.map(lambda leaf: NamedSharding(mesh, P(*["fsdp"][: leaf.ndim])), tree)


def laid_out(tree, shardings):
    return jax.tree.map(jax.device_put, tree, shardings)
