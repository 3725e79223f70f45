"""A pmap that keeps what is no array away from the devices."""

import functools

import jax
import numpy as np


def is_array(x):
    return isinstance(x, jax.Array | np.ndarray)


class Mapped:
    """The function and what pmap is told."""

    def __init__(self, function, out, settings):
        self.function, self.out, self.settings = function, out, settings
        self.compiled = {}

    def __call__(self, *args):
        leaves, tree = jax.tree.flatten(args)
        arrays = [leaf for leaf in leaves if is_array(leaf)]
        others = tuple((at, leaf) for at, leaf in enumerate(leaves) if not is_array(leaf))
        key = (tree, others)
        if key not in self.compiled:
            self.compiled[key] = jax.pmap(self._merged(tree, others), out_axes=self.out, **self.settings)
        return self.compiled[key](*arrays)

    def _merged(self, tree, others):
        def run(*arrays):
            given = list(arrays)
            for at, leaf in others:
                given.insert(at, leaf)
            return self.function(*jax.tree.unflatten(tree, given))

        return run


def array_pmap(
    function=None,
    *,
    out=0,
    **settings,
):
    """`jax.pmap` of a function that takes numbers and strings beside arrays; keywords are those of `jax.pmap`."""
    if function is None:
        return functools.partial(array_pmap, out=out, **settings)
    return Mapped(function, out, settings)
