import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "stage"))
STAGES, MICRO, WIDTH, HIDDEN = 4, 6, 128, 512
STAGE = mesh.axis_names[0]


def named(*axes):
    return NamedSharding(mesh, P(*axes))


def stage(w, x):
    return x + jax.nn.relu(x @ w["up"]) @ w["down"]  # here


def pipeline(w, inputs):
    def tick(carry, at):
        state, outputs = carry
        state = jnp.roll(state, 1, axis=0).at[0].set(inputs[jnp.minimum(at, MICRO - 1)])
        state = jax.lax.with_sharding_constraint(state, named(STAGE))
        state = jax.vmap(stage, spmd_axis_name=STAGE)(w, state)
        slot = jnp.maximum(at - STAGES + 1, 0)
        return (state, jax.lax.dynamic_update_index_in_dim(outputs, state[-1], slot, 0)), None

    start = (jnp.zeros((STAGES, *inputs.shape[1:])), jnp.zeros_like(inputs))
    return jax.lax.scan(tick, start, jnp.arange(MICRO + STAGES - 1))[0][1]


@jax.jit
def step(w, x):
    value, grads = jax.value_and_grad(lambda w: jnp.mean((pipeline(w, x) - x) ** 2))(w)
    return jax.tree.map(lambda p, g: p - 0.1 * g, w, grads), value


rng = np.random.default_rng(0)
w = {"up": rng.normal(size=(STAGES, WIDTH, HIDDEN)), "down": rng.normal(size=(STAGES, HIDDEN, WIDTH))}
w = jax.device_put(jax.tree.map(lambda p: p.astype(np.float32) * 0.02, w), named("stage"))
x = rng.normal(size=(MICRO, 32, WIDTH)).astype(np.float32)
for _ in range(2):
    w, value = step(w, jax.device_put(x, named(None, "data")))
print(value)
