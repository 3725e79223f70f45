import jax


def keep_sharding(new, old):
    """Give each leaf of `new` the sharding of the leaf of `old`."""
    return jax.tree.map(lambda n, o: jax.lax.with_sharding_constraint(n, o.sharding), new, old)  # mistake: sharding-of-tracer


def scale(tree, by):
    return jax.tree.map(lambda x: x * by, tree)


def add(a, b):
    return jax.tree.map(lambda x, y: x + y, a, b)
