import warnings

import jax.numpy as jnp


def main():
    warnings.warn("the old way is deprecated", DeprecationWarning, stacklevel=2)
    return {"x": jnp.arange(4.0)}
