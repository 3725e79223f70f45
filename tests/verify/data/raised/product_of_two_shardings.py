import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: the sharding of the result|SL
typed = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)


def project(x, w):
    return jnp.dot(x, w)  # at


def main(rows, columns):
    x = jax.device_put(jnp.ones((8, 8)), NamedSharding(typed, P(*rows)))
    w = jax.device_put(jnp.ones((8, 8)), NamedSharding(typed, P(*columns)))
    return jax.jit(project)(x, w)


with jax.set_mesh(typed):
    main(("data", "model"), ("model", None))  # ok: main(("data", None), (None, "model"))
