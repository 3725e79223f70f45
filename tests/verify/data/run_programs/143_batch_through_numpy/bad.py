"""An autoencoder in flax: what noise adds to a batch is clipped after the batch was placed."""
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

WIDTH, ROWS = 512, 256
mesh = Mesh(np.array(jax.devices()), ("data",))
rows, everywhere = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(WIDTH)(nn.relu(nn.Dense(96)(x)))


net, tx = Net(), optax.sgd(0.1)


@jax.jit
def step(params, state, x, target):
    def loss(params):
        return jnp.mean((net.apply(params, x) - target) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state, value


def noisy(x, rng):
    noise = 0.1 * rng.normal(size=x.shape).astype(np.float32)
    return np.clip(np.asarray(x) + noise, 0.0, 1.0)  # here SL243


params = jax.device_put(net.init(jax.random.key(0), np.zeros((1, WIDTH), np.float32)), everywhere)
state = jax.device_put(tx.init(params), everywhere)
rng = np.random.default_rng(0)
for _ in range(3):
    x = jax.device_put(rng.uniform(size=(ROWS, WIDTH)).astype(np.float32), rows)
    params, state, loss = step(params, state, noisy(x, rng), x)

# Another batch of that shape, from the host, is none that was there before.
score = jax.jit(lambda params, x: jnp.mean((net.apply(params, x) - x) ** 2))
seen = np.asarray(x).mean()
other = rng.uniform(size=(ROWS, WIDTH)).astype(np.float32)
print(seen, float(score(params, jax.device_put(other, rows))))

# What is read off on the host, and stays there, is no way of an array: a picture of the last batch, and its errors.
picture = np.asarray(jax.jit(net.apply)(params, x))
print(float(loss), float(np.abs(picture - np.asarray(x)).mean()))
