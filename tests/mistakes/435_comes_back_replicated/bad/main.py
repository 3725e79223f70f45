"""Tensor-parallel training of two layers; the shardings are given to jit."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

SPECS = {"up": P(None, "model"), "down": P("model", None)}


def init(key, shardings, dim=16, hidden=64):
    k1, k2 = jax.random.split(key)
    params = {"up": jax.random.normal(k1, (dim, hidden)), "down": jax.random.normal(k2, (hidden, dim))}
    return jax.device_put(jax.tree.map(lambda w: 0.1 * w, params), shardings)


def apply(params, x):
    return jax.nn.relu(x @ params["up"]) @ params["down"]


def loss_fn(params, batch):
    return jnp.mean((apply(params, batch["x"]) - batch["y"]) ** 2)


def make_step(mesh, shardings, rate=0.01):
    whole = NamedSharding(mesh, P())
    rows = NamedSharding(mesh, P("data"))

    def step(params, batch):
        loss, grads = jax.value_and_grad(loss_fn)(params, batch)
        return jax.tree.map(lambda p, g: p - rate * g, params, grads), loss

    return jax.jit(
        step,
        in_shardings=(shardings, rows),
        out_shardings=(whole, whole),  # mistake: in-instead-of-out
        donate_argnums=(0,),
    )


def load(count, rows=32, dim=16, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x = rng.normal(size=(rows, dim)).astype(np.float32)
        yield {"x": x, "y": 2 * x}


def train(steps=3):
    mesh = Mesh(np.array(jax.devices()).reshape(2, -1), ("data", "model"))
    shardings = jax.tree.map(lambda s: NamedSharding(mesh, s), SPECS, is_leaf=lambda s: isinstance(s, P))
    params = init(jax.random.key(0), shardings)
    step = make_step(mesh, shardings)
    for batch in load(steps):
        params, loss = step(params, batch)
    return params, loss


def main():
    params, loss = train()
    print("trained 3 steps", bool(loss >= 0))
    return params["up"]


if __name__ == "__main__":
    main()
