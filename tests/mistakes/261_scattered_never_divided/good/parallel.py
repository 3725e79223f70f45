"""Weights that are split over the devices, and gathered where they are used."""

import jax


def gather_with_mean_grads(x, axis_name):
    """The whole weight; its gradient is averaged over the devices and split again."""

    @jax.custom_gradient
    def gather(x):
        def back(g):
            g = jax.lax.psum_scatter(g, axis_name, scatter_dimension=0, tiled=True)
            return g / jax.lax.axis_size(axis_name)

        return jax.lax.all_gather(x, axis_name, axis=0, tiled=True), back

    return gather(x)


def sync_replicated(grads, axis_name):
    return jax.tree.map(lambda g: jax.lax.pmean(g, axis_name), grads)
