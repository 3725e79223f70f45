"""Trains a small regression on a mesh whose axes come from run.cfg."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from mesh import make_mesh, read

# The batch goes over "data" and "fsdp", weights over "fsdp".
BATCH = P(("data", "fsdp"))
FEATURES, ROWS = 16, 64


def specs():
    return {"hidden": P(None, "fsdp"), "bias": P("fsdp"), "out": P("fsdp", None)}


def init(key, width):
    one, two = jax.random.split(key)
    return {
        "hidden": 0.1 * jax.random.normal(one, (FEATURES, width)),
        "bias": jnp.zeros((width,)),
        "out": 0.1 * jax.random.normal(two, (width, 1)),
    }


def predict(params, x):
    return jnp.tanh(x @ params["hidden"] + params["bias"]) @ params["out"]


def loss_fn(params, batch):
    return jnp.mean((predict(params, batch["x"])[:, 0] - batch["y"]) ** 2)


@jax.jit
def step(params, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


def batches(count):
    rng = np.random.default_rng(0)
    weights = np.random.default_rng(1).normal(size=(FEATURES,))
    for _ in range(count):
        x = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
        yield {"x": x, "y": np.tanh(x @ weights).astype(np.float32)}


def main():
    settings = read("run.cfg")
    mesh = make_mesh(settings)
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs().items()}
    params = jax.device_put(init(jax.random.key(0), int(settings["width"])), shardings)
    rows = NamedSharding(mesh, BATCH)
    losses = []
    for batch in batches(20):
        params, loss = step(params, jax.device_put(batch, rows))
        losses.append(float(loss))
    print("loss fell:", losses[-1] < losses[0])


if __name__ == "__main__":
    main()
