import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
SPECS = {"up": P(None, "model"), "down": P("model")}
WIDTH, HIDDEN = 256, 1024


def init(key):
    local = HIDDEN // mesh.shape["model"]
    first, second = jax.random.split(key)
    return {
        "up": jax.random.normal(first, (WIDTH, local)) * 0.02,  # here SL407
        "down": jax.random.normal(second, (local, WIDTH)) * 0.02,
    }


def loss(w, x):
    out = jax.lax.psum(jax.nn.relu(x @ w["up"]) @ w["down"], "model")
    return jax.lax.pmean(jnp.mean((out - x) ** 2), "data")


loss = jax.jit(jax.shard_map(loss, mesh=mesh, in_specs=(SPECS, P("data")), out_specs=P()))
w = jax.jit(jax.shard_map(init, mesh=mesh, in_specs=P(), out_specs=SPECS, check_vma=False))(jax.random.key(0))


@jax.jit
def step(w, x):
    value, grads = jax.value_and_grad(loss)(w, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, w, grads), value


x = jax.device_put(np.ones((64, WIDTH), np.float32), NamedSharding(mesh, P("data")))
for _ in range(2):
    w, value = step(w, x)
print(value)
