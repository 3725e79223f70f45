import jax.numpy as jnp


def main():
    return {"x": jnp.arange(4.0)}
