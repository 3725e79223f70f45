"""Feed-forward block split over the model axis (column then row parallel)."""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

PARAM_SPECS = {
    "scale": P(),
    "up": {"kernel": P(None, "model"), "bias": P("model")},
    "down": {"kernel": P("model", None), "bias": P()},
}


def init_block(key, width, inner):
    k_up, k_down, k_bu, k_bd = jax.random.split(key, 4)
    return {
        "scale": jnp.ones((width,)),
        "up": {
            "kernel": jax.random.normal(k_up, (width, inner)) * width**-0.5,
            "bias": 0.02 * jax.random.normal(k_bu, (inner,)),
        },
        "down": {
            "kernel": jax.random.normal(k_down, (inner, width)) * inner**-0.5,
            "bias": 0.02 * jax.random.normal(k_bd, (width,)),
        },
    }


def rms_norm(x, scale):
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def dense(p, x):
    return jnp.einsum("...i,io->...o", x, p["kernel"]) + p["bias"]


def feed_forward(mesh):
    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(PARAM_SPECS, P()),
        out_specs=P(),
    )
    def block(params, x):
        h = jax.nn.gelu(dense(params["up"], rms_norm(x, params["scale"])))
        out = jnp.einsum("...i,io->...o", h, params["down"]["kernel"])
        return x + lax.psum(out, "model") + params["down"]["bias"]

    return block
