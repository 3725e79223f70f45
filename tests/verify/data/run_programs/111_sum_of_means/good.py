"""Data parallel SGD with shard_map; the learning rate is tuned for the mean over the global batch."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("dp",), axis_types=(jax.sharding.AxisType.Auto,))


def conv_net(params, x):
    for w in params["hidden"]:
        x = jax.nn.relu(x @ w)
    return x @ params["out"]


def nll(params, x, y):
    logp = jax.nn.log_softmax(conv_net(params, x))
    return -jnp.mean(jnp.take_along_axis(logp, y[:, None], 1))


@jax.jit
@partial(jax.shard_map, mesh=mesh, in_specs=(P(), P(), P("dp"), P("dp")), out_specs=(P(), P(), P()), check_vma=False)
def train_step(params, velocity, x, y):
    loss, grads = jax.value_and_grad(nll)(params, x, y)
    grads = jax.lax.pmean(grads, "dp")
    loss = jax.lax.pmean(loss, "dp")
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
    params = jax.tree.map(lambda p, v: p - 0.01 * v, params, velocity)
    return params, velocity, loss


def init(key, sizes=(784, 1024, 1024)):
    *ks, ko = jax.random.split(key, len(sizes))
    hidden = [jax.random.normal(k, (m, n)) * m**-0.5 for k, m, n in zip(ks, sizes, sizes[1:])]
    return {"hidden": hidden, "out": jax.random.normal(ko, (sizes[-1], 10)) * 0.01}


def main():
    whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("dp"))
    params = jax.device_put(init(jax.random.key(3)), whole)
    velocity = jax.tree.map(jnp.zeros_like, params)
    rng = np.random.default_rng(5)
    for i in range(5):
        x = jax.device_put(rng.normal(size=(256, 784)).astype(np.float32), rows)
        y = jax.device_put(rng.integers(0, 10, 256), rows)
        params, velocity, loss = train_step(params, velocity, x, y)
        print(f"{i} {loss:.4f}")


if __name__ == "__main__":
    main()
