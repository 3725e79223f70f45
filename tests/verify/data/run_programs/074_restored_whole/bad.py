import io

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("fsdp", "tensor"))
WIDTH, HIDDEN = 512, 2048
SPECS = {"up": P("fsdp", "tensor"), "down": P("tensor", "fsdp")}
SHARDINGS = {name: NamedSharding(mesh, spec) for name, spec in SPECS.items()}
tx = optax.adamw(1e-3)


def init(key):
    one, two = jax.random.split(key)
    return {
        "up": jax.random.normal(one, (WIDTH, HIDDEN)) * 0.02,
        "down": jax.random.normal(two, (HIDDEN, WIDTH)) * 0.02,
    }


def save(params):
    file = io.BytesIO()
    np.savez(file, **{name: np.asarray(value) for name, value in params.items()})
    file.seek(0)
    return file


def restore(file):
    with np.load(file) as stored:
        return {name: jax.device_put(stored[name], NamedSharding(mesh, P())) for name in stored}  # here


@jax.jit
def train_step(params, opt, x):
    def loss_fn(params):
        return jnp.mean((jax.nn.silu(x @ params["up"]) @ params["down"] - x) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt = tx.update(grads, opt, params)
    return optax.apply_updates(params, updates), opt, loss


def batches(number, seed):
    rng = np.random.default_rng(seed)
    for _ in range(number):
        yield jax.device_put(rng.normal(size=(64, WIDTH)).astype(np.float32), NamedSharding(mesh, P("fsdp")))


params = jax.jit(init, out_shardings=SHARDINGS)(jax.random.key(0))
opt = tx.init(params)
for x in batches(2, 0):
    params, opt, loss = train_step(params, opt, x)
params = restore(save(params))
for x in batches(2, 1):
    params, opt, loss = train_step(params, opt, x)
print(float(loss))
