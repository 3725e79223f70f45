import jax
import jax.numpy as jnp


def init(key, parallel, dim=8, hidden=32):
    k1, k2 = jax.random.split(key)
    return {
        "up": jax.device_put(jax.random.normal(k1, (dim, hidden)), parallel.weight(1)),
        "down": jax.device_put(jax.random.normal(k2, (hidden, dim)), parallel.weight(0)),
    }


def make_forward(parallel, return_hidden=False):
    def forward(params, x):
        hidden = jax.nn.silu(x @ params["up"])
        hidden = jax.lax.with_sharding_constraint(hidden, parallel.hidden())
        out = hidden @ params["down"]
        return (out, hidden) if return_hidden else out

    return jax.jit(forward)
