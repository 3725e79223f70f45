"""What a file gave is put on a device, and not where it lay before."""
import pickle
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))
split = NamedSharding(mesh, P("fsdp"))


@jax.jit
def step(state, x):
    def loss(p):
        return jnp.mean((jnp.tanh(x @ p["a"]) @ p["b"] - x) ** 2)

    value, grads = jax.value_and_grad(loss)(state["params"])
    mean = jax.tree.map(lambda m, g: 0.9 * m + g, state["mean"], grads)
    return {"params": jax.tree.map(lambda p, m: p - 0.1 * m, state["params"], mean), "mean": mean}, value


def train(state, steps):
    for number in range(steps):
        x = np.random.default_rng(number).normal(size=(64, 256)).astype(np.float32)
        state, loss = step(state, jax.device_put(x, split))
    return state, float(loss)


def restored(file):
    state = pickle.loads(file.read_bytes())
    return jax.device_put(state, split)


weights = {"a": np.ones((256, 512), np.float32) / 256, "b": np.ones((512, 256), np.float32) / 512}
params = jax.device_put(weights, split)
state, _ = train({"params": params, "mean": jax.tree.map(jnp.zeros_like, params)}, 2)
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "state.pickle"
    file.write_bytes(pickle.dumps(jax.device_get(state)))
    state, loss = train(restored(file), 2)
print(loss)
