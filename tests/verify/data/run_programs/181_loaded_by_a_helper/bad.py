"""Training goes on from a pickle: the weights come back as numpy arrays and are whole on every device."""
import pickle
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

D, LAYERS, B = 256, 4, 64
mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
weights = NamedSharding(mesh, P(None, "model"))
data = NamedSharding(mesh, P("data"))


def init(key):
    return {f"w{i}": jax.random.normal(k, (D, D)) * D**-0.5 for i, k in enumerate(jax.random.split(key, LAYERS))}


@jax.jit
def step(p, x):
    def loss(p):
        h = x
        for name in sorted(p):
            h = jnp.tanh(h @ p[name])
        return jnp.mean((h - x) ** 2)

    value, g = jax.value_and_grad(loss)(p)
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), value


def save(path, p):
    path.write_bytes(pickle.dumps(jax.tree.map(np.asarray, p)))


def load(path):
    return pickle.loads(path.read_bytes())


def train(p, steps):
    rng = np.random.default_rng(0)
    for _ in range(steps):
        x = jax.device_put(rng.normal(size=(B, D)).astype(np.float32), data)
        p, loss = step(p, x)
        print(float(loss))
    return p


def main():
    path = Path(tempfile.mkdtemp()) / "ckpt.pkl"
    p = jax.jit(init, out_shardings=weights)(jax.random.key(0))
    p = train(p, 3)
    save(path, p)
    p = load(path)  # here
    train(p, 3)


if __name__ == "__main__":
    main()
