"""Functions that enter a mesh by `with`, each of which can be run alone."""

import contextlib
import dataclasses
import time
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

MESH = Mesh(mesh_utils.create_device_mesh((4, 2)), ("data", "model"))
SMALL = Mesh(np.array(jax.devices()[:4]), ("data",))
ROW = NamedSharding(MESH, P("data"))
RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 16)).astype(np.float32)
W = RNG.normal(size=(16, 4)).astype(np.float32)


def make_mesh(shape=(4, 2), names=("data", "model")):
    return Mesh(np.array(jax.devices()).reshape(shape), names)


@jax.jit
def constrained(x, w):
    return jax.lax.with_sharding_constraint(x @ w, P("data", "model"))


@partial(jax.jit, out_shardings=ROW)
def placed(x):
    return x * 2 + 1


def local_mesh():
    mesh = Mesh(mesh_utils.create_device_mesh((4, 2)), ("data", "model"))
    with mesh:
        return constrained(X, W)


def made_in_the_header():
    with Mesh(mesh_utils.create_device_mesh((4, 2)), ("data", "model")):
        return constrained(X, W)


def bound_in_the_header():
    with Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model")) as mesh:
        x = jax.device_put(X, NamedSharding(mesh, P("data")))
        return constrained(x, W)


def bound_over_lines():
    with Mesh(
        np.array(jax.devices()).reshape(4, 2),
        ("data", "model"),
    ) as mesh:
        return constrained(jax.device_put(X, NamedSharding(mesh, P(None, "model"))), W)


def global_mesh():
    with MESH:
        return constrained(X, W), placed(X)


def from_a_function():
    mesh = make_mesh()
    with mesh:
        return constrained(X, W)


def called_in_the_header():
    with make_mesh((2, 4)):
        return constrained(X, W)


def several_meshes():
    with MESH:
        first = constrained(X, W)
    with SMALL:
        second = jax.jit(lambda x: jax.lax.with_sharding_constraint(x, P("data")))(X)
    return first, second


def one_of_two(small=False):
    mesh = SMALL if small else MESH
    with mesh:
        return jax.jit(lambda x: jax.lax.with_sharding_constraint(x + 1, P("data")))(X)


def parameter(mesh: Mesh):
    with mesh:
        return constrained(X, W)


def calls_with_parameter():
    return parameter(MESH)


class Trainer:
    def __init__(self, shape):
        self.mesh = Mesh(np.array(jax.devices()).reshape(shape), ("data", "model"))
        self.step = jax.jit(self._step)

    def _step(self, x):
        return jax.lax.with_sharding_constraint(jnp.sin(x), P("data", "model"))

    def train(self, steps):
        x = jax.device_put(X, NamedSharding(self.mesh, P("data")))
        start = time.time()
        with self.mesh:
            for _ in range(steps):
                x = self.step(x)
        assert time.time() >= start
        return x


def attribute():
    return Trainer((4, 2)).train(3)


@dataclasses.dataclass
class Setup:
    mesh: Mesh

    def run(self):
        with self.mesh:
            out = constrained(X, W)
        jax.block_until_ready(out)
        return out


def dataclass_field():
    return Setup(MESH).run()


def two_items():
    with MESH, contextlib.suppress(KeyError):
        return constrained(X, W)


def second_item():
    with contextlib.suppress(KeyError), MESH:
        return constrained(X, W)


def bracketed_items():
    with (
        MESH,
        contextlib.suppress(KeyError),
    ):
        return constrained(X, W)


def in_a_loop():
    out = []
    for shape in ((8, 1), (2, 4)):
        mesh = make_mesh(shape)
        with mesh:
            out.append(constrained(X, W))
    return out


def in_a_branch():
    if len(jax.devices()) > 1:
        with MESH:
            return constrained(X, W)
    return X @ W


def nested_function():
    mesh = make_mesh()

    def run(scale):
        with mesh:
            return constrained(X * scale, W)

    return run(2.0)


def closure_over_mesh():
    def step(x):
        return jax.lax.with_sharding_constraint(x**2, P(("data", "model")))

    with MESH:
        return jax.jit(step)(X)


def fresh_arrays():
    with MESH:
        out = jnp.ones((8, 4)) * 3, jnp.arange(8)
    return jax.block_until_ready(out)


def init_in_jit():
    with MESH:
        return jax.jit(lambda: jnp.zeros((8, 8)), out_shardings=NamedSharding(MESH, P("data", "model")))()


def put_then_used():
    with MESH:
        x = jax.device_put(X, ROW)
        return placed(x)


def specs_of_numpy():
    step = jax.jit(jnp.tanh, in_shardings=ROW, out_shardings=ROW)
    with MESH:
        return step(X)


def mapped():
    body = jax.shard_map(lambda x: jax.lax.psum(x, "data"), mesh=MESH, in_specs=P("data"), out_specs=P())
    with MESH:
        return jax.jit(body)(X)


def gradients():
    def loss(w):
        return jnp.sum(constrained(X, w) ** 2)

    with MESH:
        return jax.jit(jax.value_and_grad(loss))(W)


def compiled_ahead():
    with MESH:
        compiled = constrained.lower(X, W).compile()
        return compiled(X, W)


def scanned():
    def body(carry, x):
        carry = jax.lax.with_sharding_constraint(carry + x, P("data"))
        return carry, carry.sum()

    with MESH:
        return jax.jit(lambda xs: jax.lax.scan(body, jnp.zeros(16), xs))(X)


class Layer(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Dense(8, kernel_init=nn.with_partitioning(nn.initializers.ones, ("data", "model")))(x)
        return nn.with_logical_constraint(x, ("batch", "embed"))


def linen_logical():
    layer = Layer()
    with MESH, nn.logical_axis_rules([("batch", "data"), ("embed", "model")]):
        variables = jax.jit(layer.init)(jax.random.key(0), X)
        return jax.jit(layer.apply)(variables, X), nn.get_partition_spec(variables)["params"]["Dense_0"]["kernel"]


def nnx_specs():
    with MESH:
        @nnx.jit
        def create():
            model = nnx.Linear(16, 8, kernel_init=nnx.with_partitioning(nnx.initializers.ones, ("data", "model")),
                               rngs=nnx.Rngs(0))
            state = nnx.state(model)
            nnx.update(model, jax.lax.with_sharding_constraint(state, nnx.get_partition_spec(state)))
            return model

        return create().kernel[...]


def helper(x):
    return jax.jit(lambda x: jax.lax.with_sharding_constraint(x, P("model")))(x)


def through_a_helper():
    with MESH:
        return helper(X)


def keys():
    with MESH:
        key = jax.random.key(1)
        return jax.jit(lambda key: jax.lax.with_sharding_constraint(jax.random.normal(key, (8, 8)), P("data")))(key)


def evaluated_shapes():
    with MESH:
        return jax.eval_shape(lambda: constrained(X, W)).shape


def restored_by_callback():
    with MESH:
        return jax.make_array_from_callback(X.shape, ROW, lambda index: X[index])


def in_a_try():
    try:
        with MESH:
            return constrained(X, W)
    finally:
        time.sleep(0)


REGISTRY = {"small": SMALL, "whole": MESH}


def chosen(name) -> Mesh:
    return REGISTRY[name.strip()]


def chosen_with_size(name) -> tuple[Mesh, int]:
    mesh = REGISTRY[name.strip()]
    return mesh, mesh.size


def annotated_result():
    mesh = chosen(" whole")
    with mesh:
        return jax.block_until_ready(constrained(X, W))


def part_of_a_result():
    mesh, size = chosen_with_size("whole")
    with mesh:
        return jax.block_until_ready(constrained(X * size, W))


class Model:
    @property
    def mesh(self) -> Mesh:
        return REGISTRY["whole"]


class Holder:
    def __init__(self, model: Model):
        self.model = model

    @property
    def mesh(self):
        return self.model.mesh

    def run(self):
        with self.mesh:
            return jax.block_until_ready(constrained(X, W))


def property_of_what_is_held():
    return Holder(Model()).run()


def of_a_parameter(model: Model):
    with model.mesh:
        return jax.block_until_ready(constrained(X, W))


def field_of_a_parameter():
    return of_a_parameter(Model())


def maybe_given(mesh: Mesh | None = None):
    if mesh is None:
        mesh = chosen("whole")
    with mesh:
        return jax.block_until_ready(constrained(X, W))


def told_by_callers(mesh, scale):
    with mesh:
        return jax.block_until_ready(constrained(X * scale, W))


def callers():
    return told_by_callers(MESH, 2.0), told_by_callers(make_mesh((2, 4)), 3.0)


def main():
    mesh = make_mesh((2, 4))
    with mesh:
        return constrained(X, W)
