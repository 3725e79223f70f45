import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
BATCH, HEADS, LENGTH, SIZE = 8, 8, 256, 64
WIDTH = HEADS * SIZE
CACHE = NamedSharding(mesh, P("data", None, None, "model"))


@jax.jit
def decode(w, cache, x, at):
    q, k = jnp.einsum("bd,cdhk->cbhk", x, w["qk"])
    cache = jax.lax.dynamic_update_slice(cache, k[:, :, None], (0, 0, at, 0))
    scores = jax.nn.softmax(jnp.einsum("bhk,bhsk->bhs", q, cache) * SIZE**-0.5)  # here
    return jnp.einsum("bhs,bhsk->bhk", scores, cache).reshape(BATCH, WIDTH) @ w["o"], cache


w = {
    "qk": jax.device_put(np.ones((2, WIDTH, HEADS, SIZE), np.float32), NamedSharding(mesh, P(None, None, "model"))),
    "o": jax.device_put(np.ones((WIDTH, WIDTH), np.float32), NamedSharding(mesh, P("model"))),
}
cache = jax.jit(lambda: jnp.zeros((BATCH, HEADS, LENGTH, SIZE)), out_shardings=CACHE)()
x = jax.device_put(np.ones((BATCH, WIDTH), np.float32), NamedSharding(mesh, P("data")))
for at in range(3):
    x, cache = decode(w, cache, x, at)
print(x.sum())
