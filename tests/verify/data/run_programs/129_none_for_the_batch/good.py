import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

AUTO = jax.sharding.AxisType.Auto
mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AUTO, AUTO))
LAYERS, WIDTH = 3, 256


def block(x, layer):
    hidden = jax.nn.gelu(x @ layer["up"])
    hidden = lax.with_sharding_constraint(hidden, NamedSharding(mesh, P("data", None, "model")))
    return x + hidden @ layer["down"]


def loss_fn(params, x, y):
    for layer in params:
        x = block(x, layer)
    return jnp.mean((x - y) ** 2)


def main():
    keys = jax.random.split(jax.random.key(0), LAYERS)
    params = [{"up": jax.random.normal(key, (WIDTH, 4 * WIDTH)) * 0.03, "down": jax.random.normal(key, (4 * WIDTH, WIDTH)) * 0.03} for key in keys]
    placed = [{"up": NamedSharding(mesh, P(None, "model")), "down": NamedSharding(mesh, P("model", None))} for _ in keys]
    params = jax.device_put(params, placed)
    tx = optax.adam(1e-3)
    opt = tx.init(params)

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params, opt, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        updates, opt = tx.update(grads, opt)
        return optax.apply_updates(params, updates), opt, loss

    rng = np.random.default_rng(0)
    for i in range(3):
        x = rng.normal(size=(16, 128, WIDTH)).astype(np.float32)
        x, y = jax.device_put((x, np.sin(x)), NamedSharding(mesh, P("data")))
        params, opt, loss = step(params, opt, x, y)
        print(i, float(loss))


if __name__ == "__main__":
    main()
