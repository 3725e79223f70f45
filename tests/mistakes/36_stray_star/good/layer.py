import jax
import jax.numpy as jnp


def rms_norm(x, scale, eps=1e-6):
    return x * scale * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + eps)


@jax.jit
def forward(weights, x):
    y = rms_norm(x, weights["norm"])
    return x + (jax.nn.silu(y @ weights["gate"]) * (y @ weights["up"])) @ weights["down"]
