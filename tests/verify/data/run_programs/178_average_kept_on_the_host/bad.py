"""The average of the weights is kept with numpy on the host: all weights are fetched after each step."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

D, LAYERS, BATCH, DECAY = 256, 4, 64, 0.99
mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))
split = NamedSharding(mesh, P("fsdp"))


def init(key):
    return [jax.random.normal(k, (D, D)) * D**-0.5 for k in jax.random.split(key, LAYERS)]


def apply(params, x):
    for w in params:
        x = jnp.tanh(x @ w)
    return x


@jax.jit
def train_step(params, x):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((apply(p, x) - x) ** 2))(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


def average(ema, params):
    return jax.tree.map(lambda e, p: DECAY * e + (1 - DECAY) * np.asarray(p), ema, params)  # here


def main():
    params = jax.jit(init, out_shardings=split)(jax.random.key(0))
    ema = jax.tree.map(np.asarray, params)
    rng = np.random.default_rng(0)
    for step in range(6):
        x = jax.device_put(rng.normal(size=(BATCH, D)).astype(np.float32), split)
        params, loss = train_step(params, x)
        ema = average(ema, params)
        print(step, float(loss))
    print(float(sum(jnp.sum(e) for e in ema)))


if __name__ == "__main__":
    main()
