import jax


def keep_sharding(new, shardings):
    """Give each leaf of `new` its sharding."""
    return jax.tree.map(jax.lax.with_sharding_constraint, new, shardings)


def scale(tree, by):
    return jax.tree.map(lambda x: x * by, tree)


def add(a, b):
    return jax.tree.map(lambda x, y: x + y, a, b)
