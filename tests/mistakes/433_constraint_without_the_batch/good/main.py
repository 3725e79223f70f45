"""Two layers over a mesh of data and model, with constraints on the activations."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
WEIGHTS = {"up": P(None, "model"), "down": P("model", None)}


def shard(x, *spec):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


def init(key, dim=32, hidden=128):
    k1, k2 = jax.random.split(key)
    params = {
        "up": jax.random.normal(k1, (dim, hidden)) / np.sqrt(dim),
        "down": jax.random.normal(k2, (hidden, dim)) / np.sqrt(hidden),
    }
    return {name: jax.device_put(w, NamedSharding(mesh, WEIGHTS[name])) for name, w in params.items()}


def normed(x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-6)


def block(params, x):
    x = shard(x, "data", None, None)
    h = jax.nn.gelu(normed(x) @ params["up"])
    h = shard(h, "data", None, "model")
    y = h @ params["down"]
    y = shard(y, "data", None, None)
    return x + y, h


@jax.jit
def forward(params, x):
    return block(params, x)


def tokens(count, rows=32, length=8, dim=32):
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield rng.normal(size=(rows, length, dim)).astype(np.float32)


def main():
    params = init(jax.random.key(0))
    for x in tokens(2):
        x = jax.device_put(x, NamedSharding(mesh, P("data")))
        out, hidden = forward(params, x)
    rows = hidden.addressable_shards[0].data.shape[0]
    print("hidden rows per device", rows, out.shape)
    return hidden


if __name__ == "__main__":
    main()
