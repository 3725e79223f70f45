import jax


def average(tree, axis_name):
    """Mean of `tree` over the replicas."""
    n = jax.device_count()
    return jax.tree.map(lambda x: jax.lax.psum(x, axis_name) / n, tree)
