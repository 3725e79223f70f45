import json
import pathlib

import equinox as eqx
import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from .net import FourierMLP


class TrainState(eqx.Module):
    model: FourierMLP
    opt: optax.OptState


def mesh():
    return Mesh(np.array(jax.devices()).reshape(2, -1), ("points", "width"))


def place(tree, m):
    """wide matrices over "width", the rest everywhere"""

    def one(x):
        wide = x.ndim == 2 and x.shape[0] % m.shape["width"] == 0 and x.shape[0] > 1
        return NamedSharding(m, P("width") if wide else P())

    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.device_put(arrays, jax.tree.map(one, arrays)), rest)


def fresh(width, depth, tx, key):
    model = FourierMLP(width, depth, key)
    return TrainState(model, tx.init(eqx.filter(model, eqx.is_inexact_array)))


def save(directory, step, state):
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    eqx.tree_serialise_leaves(directory / "state.eqx", state)
    (directory / "meta.json").write_text(json.dumps({"step": step}))


def load_or_create(directory, width, depth, tx, m, key):
    directory = pathlib.Path(directory)
    if (directory / "meta.json").exists():
        like = eqx.filter_eval_shape(fresh, width, depth, tx, key)
        state = eqx.tree_deserialise_leaves(directory / "state.eqx", like)
        step = json.loads((directory / "meta.json").read_text())["step"]
        return step, place(state, m)
    return 0, place(fresh(width, depth, tx, key), m)
