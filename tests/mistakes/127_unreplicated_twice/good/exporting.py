"""Write a finished model to a flat npz archive."""
import os

import jax
import numpy as np
from flax import jax_utils, traverse_util


def flatten(params):
    return traverse_util.flatten_dict(params, sep="/")


def save_npz(path, state):
    flat = flatten(jax.device_get(state.params))
    np.savez(path, **flat)
    values = sum(v.size for v in flat.values())
    return values, os.path.getsize(path)


def load_npz(path):
    with np.load(path) as archive:
        flat = {name: archive[name] for name in archive.files}
    return traverse_util.unflatten_dict(flat, sep="/")
