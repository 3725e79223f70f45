import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P


def init(key, dim=64, mult=4, depth=3, dtype=jnp.bfloat16):
    layers = []
    for k in jax.random.split(key, depth):
        a, b = jax.random.split(k)
        layers.append(
            {
                "a": (jax.random.normal(a, (dim, dim * mult)) * dim**-0.5).astype(dtype),
                "b": (jax.random.normal(b, (dim * mult, dim)) * (dim * mult) ** -0.5).astype(dtype),
            }
        )
    return layers


def shardings(params, mesh):
    spec = {"a": P("fsdp", "tp"), "b": P("tp", "fsdp")}
    return [{k: NamedSharding(mesh, spec[k]) for k in layer} for layer in params]


def apply(params, x):
    for layer in params:
        x = x + jax.nn.relu(x @ layer["a"]) @ layer["b"]
    return x
