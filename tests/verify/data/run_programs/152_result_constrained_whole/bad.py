"""An encoder whose result is constrained: None stands for `whole`, and not for `as it is`."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("batch", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


@jax.jit
def encode(weights, x):
    h = jax.nn.relu(x @ weights["in"])
    h = jax.lax.with_sharding_constraint(h, NamedSharding(mesh, P("batch", "model")))
    out = jnp.exp(-jnp.abs(h @ weights["out"]))
    return jax.lax.with_sharding_constraint(out, NamedSharding(mesh, P(None, "model")))  # here


@jax.jit
def logits(weights, x):
    h = jax.nn.relu(x @ weights["in"])
    # Whole along the words, on purpose: they are sampled from.
    return jax.lax.with_sharding_constraint(h @ weights["out"], NamedSharding(mesh, P("batch", None)))


rng = np.random.default_rng(0)
shapes = {"in": (256, 512), "out": (512, 384)}
weights = {
    name: jax.device_put(rng.normal(size=shape).astype(np.float32) / 20, NamedSharding(mesh, P(None, "model")))
    for name, shape in shapes.items()
}
for _ in range(2):
    x = jax.device_put(rng.normal(size=(256, 256)).astype(np.float32), NamedSharding(mesh, P("batch", None)))
    out = encode(weights, x)
print(float(out.mean()), float(logits(weights, x).max()))
