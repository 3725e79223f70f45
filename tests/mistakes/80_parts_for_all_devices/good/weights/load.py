import os

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from weights.model import Shape
from weights.place import Placer


def connect():
    jax.distributed.initialize(
        os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )


def main():
    connect()
    mesh = jax.make_mesh((jax.device_count(),), ("model",), axis_types=(AxisType.Auto,))
    placer = Placer(mesh)
    shape = Shape()
    params = placer.tree(shape.weights(), shape.specs())
    norm = jax.jit(
        lambda tree: sum(jnp.sum(x) for x in jax.tree.leaves(tree)),
        out_shardings=NamedSharding(mesh, P()),
    )(params)
    print("sum", int(norm))


if __name__ == "__main__":
    main()
