"""Regular expressions over parameter names, first match wins."""

import re

import jax
from jax.sharding import NamedSharding, PartitionSpec as P

RULES = (
    ("embedding", P("mp", None)),
    ("attention/(wq|wk|wv)/kernel", P(None, "mp")),
    ("attention/wo/kernel", P("mp", None)),
    ("mlp/up/kernel", P(None, "mp")),
    ("mlp/down", P("mp", None)),  # mistake: spec-rank-mismatch
    (".*", P()),
)


def spec_for(name: str) -> P:
    for pattern, spec in RULES:
        if re.search(pattern, name):
            return spec
    raise KeyError(f"no partition rule for {name}")


def tree_shardings(params, mesh):
    def one(path, _):
        name = "/".join(str(getattr(k, "key", k)) for k in path)
        return NamedSharding(mesh, spec_for(name))

    return jax.tree_util.tree_map_with_path(one, params)
