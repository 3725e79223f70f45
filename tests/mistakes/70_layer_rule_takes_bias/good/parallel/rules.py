import re

import jax
from jax.sharding import NamedSharding, PartitionSpec as P

RULES = (
    (r"bias$", P()),
    (r"attn/(q|k|v)", P(None, "tp")),
    (r"attn/out", P("tp", None)),
    (r"mlp/up", P(None, "tp")),
    (r"mlp/down", P("tp", None)),
    (r".*", P()),
)


def match(path):
    name = "/".join(str(getattr(k, "key", k)) for k in path)
    for pattern, spec in RULES:
        if re.search(pattern, name):
            return spec
    raise KeyError(name)


def shard_tree(tree, mesh):
    return jax.tree_util.tree_map_with_path(
        lambda path, x: jax.device_put(x, NamedSharding(mesh, match(path))), tree
    )
