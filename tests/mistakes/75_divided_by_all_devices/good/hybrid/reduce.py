import jax


def average(tree, axis_name):
    """Mean of `tree` over the replicas."""
    n = jax.lax.axis_size(axis_name)
    return jax.tree.map(lambda x: jax.lax.psum(x, axis_name) / n, tree)
