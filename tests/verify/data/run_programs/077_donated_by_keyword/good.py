import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
WIDTH, HIDDEN = 512, 2048
tx = optax.adam(1e-3)


def counted(function):
    """Counts the tokens that a step has seen."""

    def inner(*args, **options):
        started = time.time()
        out = function(*args, **options)
        inner.seconds = time.time() - started
        return out

    return inner


@counted
def update(state, batch):
    def loss_fn(params):
        return jnp.mean((jnp.tanh(batch @ params["up"]) @ params["down"] - batch) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(state["params"])
    updates, opt = tx.update(grads, state["opt"], state["params"])
    return {"params": optax.apply_updates(state["params"], updates), "opt": opt}, loss


train_step = jax.jit(update, donate_argnums=(0,))
specs = {"up": NamedSharding(mesh, P("data", "model")), "down": NamedSharding(mesh, P("model", "data"))}
rng = np.random.default_rng(0)
params = {
    "up": rng.normal(size=(WIDTH, HIDDEN)).astype(np.float32) * 0.02,
    "down": rng.normal(size=(HIDDEN, WIDTH)).astype(np.float32) * 0.02,
}
params = jax.device_put(params, specs)
state = {"params": params, "opt": tx.init(params)}
for _ in range(3):
    batch = jax.device_put(rng.normal(size=(64, WIDTH)).astype(np.float32), NamedSharding(mesh, P("data")))
    state, loss = train_step(state, batch)
print(float(loss))
