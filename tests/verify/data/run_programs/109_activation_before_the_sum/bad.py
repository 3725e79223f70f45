"""A tensor-parallel block in a region: the first product goes over the split width, the second gives it back split."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))
D, H = 512, 2048


@partial(jax.shard_map, mesh=mesh, in_specs=(P("data", "model"), P("model"), P(None, "model")), out_specs=P("data", "model"))
def block(x, up, down):
    h = jax.nn.gelu(x @ up)  # here SL402
    return jax.lax.psum(h, "model") @ down


def loss_fn(params, x, y):
    return jnp.mean((block(x, params["up"], params["down"]) - y) ** 2)


@jax.jit
def step(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


def main():
    a, b = jax.random.split(jax.random.key(0))
    params = {
        "up": jax.device_put(jax.random.normal(a, (D, H)) * 0.03, NamedSharding(mesh, P("model"))),
        "down": jax.device_put(jax.random.normal(b, (H, D)) * 0.03, NamedSharding(mesh, P(None, "model"))),
    }
    rng = np.random.default_rng(0)
    for i in range(3):
        x = rng.normal(size=(64, D)).astype(np.float32)
        xs = jax.device_put(x, NamedSharding(mesh, P("data", "model")))
        params, loss = step(params, xs, jax.device_put(np.tanh(x), NamedSharding(mesh, P("data", "model"))))
        print(i, float(loss))


if __name__ == "__main__":
    main()
