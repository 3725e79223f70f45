"""Which weight is split how, by the path of its leaf."""

import re

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as PS

RULES = [
    (r"attention/(q_proj|k_proj|v_proj)/kernel", PS("fsdp", "model")),
    (r"attention/o_proj/kernel", PS("model", "fsdp")),
    (r"mlp/(gate_proj|up_proj)/kernel", PS("fsdp", "model")),
    (r"mlp/down_proj/kernel", PS("model", "fsdp")),
    (r".*", PS()),
]


def shardings(params, mesh: Mesh):
    def one(path, _):
        name = "/".join(str(part.key) for part in path)
        spec = next(spec for pattern, spec in RULES if re.search(pattern, name))
        return NamedSharding(mesh, spec)

    return jax.tree_util.tree_map_with_path(one, params)
