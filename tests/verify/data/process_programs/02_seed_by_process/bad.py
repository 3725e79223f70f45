import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

jax.distributed.initialize()
mesh = jax.make_mesh((len(jax.devices()),), ("data",))
whole, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))


@jax.jit
def step(w, x):
    return w - 0.1 * jnp.mean(x @ w) * w


def batch(rows=8):
    return jax.make_array_from_process_local_data(split, np.ones((rows, 16), np.float32))


w = jax.jit(lambda: jnp.eye(16), out_shardings=whole)()
key = np.asarray([0, jax.process_index()], np.uint32)
noise = jax.jit(lambda key: jax.random.normal(jax.random.wrap_key_data(key), (16, 16)), out_shardings=whole)
w = noise(key)  # here SL806
print(float(step(w, batch()).sum()) < 0)
