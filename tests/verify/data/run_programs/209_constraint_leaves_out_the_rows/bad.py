"""A scorer of spectra: layouts are given by the names of dimensions, and the table does not know how rows are called."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("replica", "heads"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
TABLE = {"batch": "replica", "hidden": "heads"}


def lay(x, *names):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*map(TABLE.get, names))))


def score(w, spectra):
    level = jnp.log1p(jnp.abs(spectra)) * w["scale"]
    level = lay(level, "rows", "time", "bands")  # here
    level = level - level.mean(-1, keepdims=True)
    level = level * jax.lax.rsqrt(level.var(-1, keepdims=True) + 1e-5)
    hidden = lay(jax.nn.gelu(level @ w["up"]), "batch", "time", "hidden")
    return (hidden @ w["down"]).max(1)


keys = jax.random.split(jax.random.key(0))
w = {
    "scale": jax.device_put(jnp.ones(128), NamedSharding(mesh, P())),
    "up": jax.device_put(jax.random.normal(keys[0], (128, 256)) * 0.1, NamedSharding(mesh, P(None, "heads"))),
    "down": jax.device_put(jax.random.normal(keys[1], (256, 16)) * 0.1, NamedSharding(mesh, P("heads"))),
}
run = jax.jit(score)
for seed in range(2):
    spectra = np.random.default_rng(seed).normal(size=(32, 64, 128)).astype(np.float32)
    scores = run(w, jax.device_put(spectra, NamedSharding(mesh, P("replica"))))
print(float(scores.sum()))
