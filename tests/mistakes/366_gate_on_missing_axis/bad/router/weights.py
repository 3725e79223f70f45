"""Makes weights on the host, and lays them out."""

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

LAYOUT = {
    "up": P(None, "model"),
    "down": P("model", None),
    "gate": P(None, "expert"),  # mistake: axis-not-in-mesh
    "norm": P(),
}


def made(options, seed=0):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return (rng.normal(size=shape) * shape[0] ** -0.5).astype(np.float32)

    weights = {
        "up": normal(options.width, options.hidden),
        "down": normal(options.hidden, options.width),
        "norm": np.ones(options.width, np.float32),
    }
    if options.experts:
        weights["gate"] = normal(options.width, options.experts)
    return weights


def placed(weights, mesh):
    def place(path, leaf):
        return jax.device_put(leaf, NamedSharding(mesh, LAYOUT[path[-1].key]))

    return jax.tree_util.tree_map_with_path(place, weights)
