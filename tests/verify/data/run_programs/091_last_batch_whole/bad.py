"""Epochs over a data set whose last batch is smaller."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,) * 1)
tx = optax.adam(1e-3)


def init(key):
    k1, k2 = jax.random.split(key)
    return {"w1": jax.random.normal(k1, (784, 2048)) * 0.02, "w2": jax.random.normal(k2, (2048, 10)) * 0.02}


def loss_fn(params, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(jax.nn.relu(x @ params["w1"]) @ params["w2"], y).mean()


@jax.jit
def step(params, opt, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, opt = tx.update(grads, opt)
    return optax.apply_updates(params, updates), opt, loss


def load(x, y, size):
    for start in range(0, len(x), size):
        yield x[start:start + size], y[start:start + size]


def put(batch):
    n = len(batch[0])
    spec = P("data") if n % mesh.size == 0 else P()
    return jax.device_put(batch, NamedSharding(mesh, spec))  # here


def main():
    rng = np.random.default_rng(0)
    images = rng.normal(size=(1020, 784)).astype(np.float32)
    labels = rng.integers(0, 10, 1020).astype(np.int32)
    params = jax.device_put(init(jax.random.key(0)), NamedSharding(mesh, P()))
    opt = tx.init(params)
    for epoch in range(2):
        for batch in load(images, labels, 256):
            x, y = put(batch)
            params, opt, loss = step(params, opt, x, y)
        print(epoch, float(loss))


if __name__ == "__main__":
    main()
