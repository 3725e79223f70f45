import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

WIDTH, HIDDEN = 512, 2048


def build(data, model):
    return Mesh(np.array(jax.devices()).reshape(data, model), ("data", "model"))


def placed(mesh):
    return {"up": NamedSharding(mesh, P(None, "model")), "down": NamedSharding(mesh, P("model"))}


def apply(w, x):
    return x + jax.nn.relu(x @ w["up"]) @ w["down"]


@jax.jit
def step(w, x):
    value, grads = jax.value_and_grad(lambda w: jnp.mean(apply(w, x) ** 2))(w)
    return jax.tree.map(lambda p, g: p - 0.1 * g, w, grads), value


train, test = build(2, 4), build(4, 2)


@jax.jit
def evaluate(w, x):
    w = jax.lax.with_sharding_constraint(w, placed(test))  # here
    return jnp.mean(jnp.abs(apply(w, x)))


rng = np.random.default_rng(0)
w = {"up": rng.normal(size=(WIDTH, HIDDEN)) * 0.02, "down": rng.normal(size=(HIDDEN, WIDTH)) * 0.02}
w = jax.device_put(jax.tree.map(lambda p: p.astype(np.float32), w), placed(train))
x = rng.normal(size=(64, WIDTH)).astype(np.float32)
for _ in range(2):
    w, value = step(w, jax.device_put(x, NamedSharding(train, P("data"))))
    print(value, evaluate(w, jax.device_put(x, NamedSharding(test, P("data")))))
