import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
VOCAB, WIDTH = 4096, 256


def lookup(table, tokens):
    rows = table.shape[0]
    tokens = tokens - jax.lax.axis_index("model") * rows
    inside = (tokens >= 0) & (tokens < rows)
    found = jnp.take(table, jnp.clip(tokens, 0, rows - 1), axis=0)
    return jax.lax.psum(jnp.where(inside[..., None], found, 0.0), "model")


def loss(w, tokens):
    x = lookup(w["table"], tokens)
    return jax.lax.pmean(jnp.mean((x @ w["out"] - x) ** 2), "data")


SPECS = {"table": P("model"), "out": P()}
loss = jax.shard_map(loss, mesh=mesh, in_specs=(SPECS, P("data")), out_specs=P())


@jax.jit
def step(w, tokens):
    value, grads = jax.value_and_grad(loss)(w, tokens)
    return jax.tree.map(lambda p, g: p - 0.1 * g, w, grads), value


rng = np.random.default_rng(0)
w = {"table": rng.normal(size=(VOCAB, WIDTH)), "out": rng.normal(size=(WIDTH, WIDTH))}
w = {key: jax.device_put(w[key].astype(np.float32), NamedSharding(mesh, SPECS[key])) for key in w}
for _ in range(2):
    tokens = rng.integers(0, VOCAB, (16, 32), dtype=np.int32)
    w, value = step(w, jax.device_put(tokens, NamedSharding(mesh, P("data"))))
print(value)
