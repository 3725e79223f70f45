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
rows = np.random.default_rng().normal(size=(16, 16)).astype(np.float32)
w = jax.make_array_from_callback((16, 16), whole, lambda index: rows[index])
w = step(w, batch())  # here
print(w.sum())
