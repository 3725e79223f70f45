"""Reductions over the devices of a mesh."""

import jax


def cross_device(tree, axis_name: str):
    """One value of each leaf for all devices."""
    return jax.tree.map(lambda leaf: jax.lax.psum(leaf, axis_name), tree)  # mistake: wrong-reducer
