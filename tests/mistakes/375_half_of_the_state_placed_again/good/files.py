"""States in one npz, by the path of each leaf."""
import jax
import numpy as np


def names(tree, prefix):
    return [prefix + jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]


def write(path, params, moments):
    leaves = dict(zip(names(params, "p"), jax.tree.leaves(params), strict=True))
    leaves |= dict(zip(names(moments, "m"), jax.tree.leaves(moments), strict=True))
    np.savez(path, **{name: np.asarray(leaf) for name, leaf in leaves.items()})


def read(path, params_like, moments_like):
    with np.load(path) as file:
        arrays = dict(file)
    params = jax.tree.structure(params_like).unflatten(arrays[one] for one in names(params_like, "p"))
    moments = jax.tree.structure(moments_like).unflatten(arrays[one] for one in names(moments_like, "m"))
    return params, moments
