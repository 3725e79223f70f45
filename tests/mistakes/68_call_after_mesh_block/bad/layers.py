import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def constrain(x, *names):
    return jax.lax.with_sharding_constraint(x, P(*names))  # mistake: spec-needs-mesh


def ffn(params, x):
    h = constrain(x @ params["up"], "data", "model")
    return constrain(jax.nn.relu(h) @ params["down"], "data", None)


def init_ffn(key, d, f):
    a, b = jax.random.split(key)
    return {"up": jax.random.normal(a, (d, f)) * 0.1, "down": jax.random.normal(b, (f, d)) * 0.1}


def mse(params, x, y):
    return jnp.mean((ffn(params, x) - y) ** 2)
