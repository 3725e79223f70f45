import jax
import jax.numpy as jnp
import numpy as np


def cast_floating(tree, dtype):
    """Cast every floating leaf, leave integer tables alone."""
    dtype = jnp.dtype(dtype)

    def cast(x):
        if not jnp.issubdtype(x.dtype, jnp.floating):
            return x
        return jnp.asarray(np.asarray(x), dtype=dtype)  # mistake: sharding-lost-in-cast

    return jax.tree.map(cast, tree)


def nbytes(tree):
    return sum(x.nbytes for x in jax.tree.leaves(tree))
