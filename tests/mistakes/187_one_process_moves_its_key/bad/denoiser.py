import jax
import jax.numpy as jnp


def init(key: jax.Array, size: int) -> dict:
    return {"w": jax.random.normal(key, (size, size)) * size**-0.5}


def loss(params: dict, key: jax.Array, x: jax.Array) -> jax.Array:
    """Predict the noise with a tenth of the connections dropped."""
    noise_key, drop_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, x.shape)
    kept = jax.random.bernoulli(drop_key, 0.9, params["w"].shape)
    return jnp.mean(((x + noise) @ (params["w"] * kept) - noise) ** 2)


def sample(params: dict, key: jax.Array, count: int) -> jax.Array:
    x = jax.random.normal(key, (count, params["w"].shape[0]))
    for _ in range(4):
        x = x - 0.25 * (x @ params["w"])
    return x
