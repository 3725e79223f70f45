"""A batch is cut into rounds by a jitted function of its own, before the function that accumulates over them."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

ROUNDS, ROWS, DIM = 8, 256, 256
mesh = jax.make_mesh((8,), ("dp",), axis_types=(jax.sharding.AxisType.Auto,))


@jax.jit
def rounds(x, y):
    def cut(one):
        return jnp.swapaxes(jnp.reshape(one, (ROWS // ROUNDS, ROUNDS, -1)), 0, 1)

    return cut(x), cut(y)


@jax.jit
def step(w, xs, ys):
    def one(total, pair):
        loss, grad = jax.value_and_grad(lambda w: jnp.mean((jnp.tanh(pair[0] @ w) - pair[1]) ** 2))(w)
        return total + grad, loss

    total, losses = jax.lax.scan(one, jnp.zeros_like(w), (xs, ys))
    return w - 0.1 * total / ROUNDS, losses.mean()


w = jax.device_put(np.eye(DIM, dtype=np.float32), NamedSharding(mesh, P()))
for number in range(2):
    x = np.random.default_rng(number).normal(size=(ROWS, DIM)).astype(np.float32)
    w, loss = step(w, *rounds(*jax.device_put((x, np.sin(x)), NamedSharding(mesh, P("dp")))))
print(float(loss))
