import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from encoder import Encoder
from rules import get_rules


def create_state(mesh, key, sample):
    model = Encoder()
    tx = optax.adamw(1e-3)

    def build(key):
        variables = model.init(key, sample)
        return TrainState.create(apply_fn=model.apply, params=variables["params"], tx=tx)

    abstract = jax.eval_shape(build, key)
    logical = nn.get_partition_spec(abstract)
    shardings = nn.logical_to_mesh_sharding(logical, mesh, get_rules())
    state = jax.jit(build, out_shardings=shardings)(key)
    return nn.unbox(state), shardings


def train_step(state, batch):
    def loss(p):
        logits = state.apply_fn({"params": p}, batch["x"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"]).mean()

    value, grads = jax.value_and_grad(loss)(state.params)
    return state.apply_gradients(grads=grads), value


def main(steps=3):
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
    rng = np.random.default_rng(0)
    sample = jnp.zeros((8, 6, 32))
    state, shardings = create_state(mesh, jax.random.key(0), sample)
    data = NamedSharding(mesh, P("data"))
    step = jax.jit(train_step, in_shardings=(shardings, data), out_shardings=(shardings, None), donate_argnums=0)
    for _ in range(steps):
        batch = {"x": rng.normal(size=(8, 6, 32)).astype("f4"), "y": rng.integers(0, 8, 8)}
        state, loss = step(state, jax.device_put(batch, data))
        print(float(loss))
    return state


if __name__ == "__main__":
    main()
