"""Functions that pjit and thread_resources tie to `with mesh:`: all of it moves or nothing does."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pjit import pjit
from jax.interpreters import pxla
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

Spec = P | None
MESH = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
X = np.arange(32, dtype=np.float32).reshape(8, 4)


def constrain(x, *spec):
    if pxla.thread_resources.env.physical_mesh.empty:
        return x
    return jax.lax.with_sharding_constraint(x, P(*spec))


double = pjit(lambda x: x * 2, in_shardings=P("data"), out_shardings=P("data", "model"))
total = pjit(lambda x: x.sum(0), in_shardings=(P("data", "model"),), out_shardings=None)


def specs():
    with MESH:
        return double(X)


def whole():
    with MESH:
        return total(X)


def one_after_the_other():
    with MESH:
        return total(double(X))


def read_in_jit():
    with MESH:
        return jax.jit(lambda x: constrain(jnp.sqrt(x), "data"))(X)


def without_a_mesh():
    return jax.jit(lambda x: constrain(x, "data"))(X)


def decorated():
    @pjit
    def step(x):
        return constrain(x + 1, None, "model")

    with MESH:
        return step(X)


def bound():
    with Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model")) as mesh:
        assert not mesh.empty
        return pjit(lambda x: x - 1, out_shardings=P("model"))(X)


def gather(x, spec=None):
    with MESH:
        return pjit(lambda a: a + 1, out_shardings=spec)(x)


def given_no_spec():
    return gather(jax.device_put(X, NamedSharding(MESH, P("data"))))


def given_none(spec: Spec):
    with MESH:
        placed = double(X)
        return pjit(lambda a: (a, a), out_shardings=(spec, P("data") if spec is None else None))(placed)


def optional():
    return given_none(None), given_none(P("model"))
