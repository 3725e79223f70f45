"""Greedy decoding by a model that is split over heads, with a cache for keys and one for values."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

LAYERS, ROWS, STEPS, HEADS, SIZE, TOKENS = 2, 8, 64, 8, 32, 512
mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
CACHE = P()
rng = np.random.default_rng(0)


def place(array, *axes):
    return jax.device_put(array, NamedSharding(mesh, P(*axes)))


def weight(*shape):
    return (rng.normal(size=shape) * shape[0] ** -0.5).astype(np.float32)


dim = HEADS * SIZE
weights = {
    "embed": place(weight(TOKENS, dim)),
    "qkv": [place(weight(dim, 3, HEADS, SIZE), None, None, "model") for _ in range(LAYERS)],
    "out": [place(weight(HEADS, SIZE, dim), "model") for _ in range(LAYERS)],
}


def write(cache, layer, at, row):
    return jax.lax.dynamic_update_slice(cache, row[None, :, None], (layer, 0, at, 0, 0))  # here


@jax.jit
def decode(weights, cache, token, at):
    x = weights["embed"][token]
    for layer in range(LAYERS):
        q, k, v = jnp.einsum("bd,dnhs->nbhs", x, weights["qkv"][layer])
        cache = {
            "k": write(cache["k"], layer, at, k),
            "v": write(cache["v"], layer, at, v),
        }
        seen = jnp.einsum("bhs,bths->bht", q, cache["k"][layer]) * SIZE**-0.5
        share = jax.nn.softmax(jnp.where(jnp.arange(STEPS) <= at, seen, -1e30))
        x = x + jnp.einsum("bht,bths,hsd->bd", share, cache["v"][layer], weights["out"][layer])
    return jnp.argmax(x @ weights["embed"].T, axis=-1), cache


lies = {"k": NamedSharding(mesh, CACHE), "v": NamedSharding(mesh, CACHE)}
decode = jax.jit(decode, donate_argnums=1, out_shardings=(NamedSharding(mesh, P("data")), lies))
shape = (LAYERS, ROWS, STEPS, HEADS, SIZE)
cache = jax.jit(lambda: {"k": jnp.zeros(shape), "v": jnp.zeros(shape)}, out_shardings=lies)()
token = place(rng.integers(0, TOKENS, ROWS).astype(np.int32), "data")
for at in range(6):
    token, cache = decode(weights, cache, token, place(np.int32(at)))
print(np.asarray(token).tolist())
